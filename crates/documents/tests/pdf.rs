//! Handwritten PDFs, each of which tests one feature.

use emergent_documents::{Error, ExtractedText, Mime, PdfError, extract};

/// Builds a PDF of these objects, numbered from 1. The first one is the catalog.
fn pdf(objects: &[&str], trailer: &str) -> Vec<u8> {
    let mut file = String::from("%PDF-1.4\n");
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", index + 1);
    }
    let xref = file.len();
    file += &format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for offset in offsets {
        file += &format!("{offset:010} 00000 n \n");
    }
    let size = objects.len() + 1;
    file += &format!("trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{xref}\n%%EOF\n");
    file.into_bytes()
}

const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// Builds a PDF whose pages have these content streams, with a font `F`.
fn pages(contents: &[&str], font: &str, more: &[String]) -> Vec<u8> {
    let kids: Vec<_> = (0..contents.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Count {} /Kids [{}] >>", contents.len(), kids.join(" ")),
        font.to_owned(),
    ];
    for (page, content) in contents.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
             /Resources << /Font << /F 3 0 R >> /XObject << /X {} 0 R >> >> >>",
            5 + 2 * page,
            4 + 2 * contents.len(),
        ));
        objects.push(stream("", content));
    }
    objects.extend_from_slice(more);
    let objects: Vec<_> = objects.iter().map(String::as_str).collect();
    pdf(&objects, "")
}

fn read(bytes: &[u8]) -> Result<ExtractedText, Error> {
    extract(Mime::Pdf, bytes)
}

fn check(contents: &[&str], expected: &str) {
    assert_eq!(read(&pages(contents, FONT, &[])).unwrap().text, expected);
}

fn fault(bytes: &[u8]) -> PdfError {
    match read(bytes) {
        Err(Error::Pdf(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_are_read_in_order_with_their_lines() {
    check(
        &[
            "BT /F 12 Tf 72 700 Td (Hello,) Tj 0 -14 Td (world.) Tj 0 -14 Td (Bye.) Tj ET \
             BT /F 12 Tf 72 600 Td (A new paragraph) Tj T* ET",
            "BT /F 12 Tf 14 TL 72 700 Td (Second \\(page\\)) Tj (of it) ' (and more) ' ET",
        ],
        "Hello,\nworld.\nBye.\n\nA new paragraph\n\nSecond (page)\nof it\nand more",
    );
}

#[test]
fn words_are_told_apart_by_their_distance() {
    check(
        &["BT /F 10 Tf 72 700 Td [(Kno) 20 (wledge) -300 (gra) -15 (ph)] TJ 100 0 Td (right) Tj ET"],
        "Knowledge graph right",
    );
    // Every word is positioned on its own, as many programs do: 47.8 units are the width of
    // `Separate`.
    check(
        &["BT /F 12 Tf 1 0 0 1 72 700 Tm (Separate) Tj 1 0 0 1 123 700 Tm (words) Tj ET"],
        "Separate words",
    );
}

#[test]
fn a_turned_page_reads_the_same() {
    check(&["q 0 1 -1 0 500 0 cm BT /F 12 Tf 72 300 Td (Turned) Tj 0 -14 Td (text) Tj ET Q"], "Turned\ntext");
}

#[test]
fn text_in_a_form_is_read_and_a_form_that_draws_itself_ends() {
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>",
        "BT /F 12 Tf 10 10 Td (inside ) Tj ET /X Do /X Do /X Do /X Do /X Do /X Do",
    );
    let text = read(&pages(&["/X Do"], FONT, &[form])).unwrap().text;
    assert!(text.starts_with("inside"), "{text}");
}

#[test]
fn a_font_may_say_which_characters_its_codes_are() {
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-H /ToUnicode 6 0 R \
        /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /DW 500 /W [1 [600 600]] >>] >>";
    let map = stream("", "2 beginbfchar <0001> <77E5> <0002> <8BC6> endbfchar");
    let text = read(&pages(&["BT /F 12 Tf 72 700 Td <00010002> Tj ET"], font, &[map])).unwrap().text;
    assert_eq!(text, "知识");
}

#[test]
fn ligatures_of_tex_are_read() {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /CMR10 >>";
    let text = read(&pages(&["BT /F 12 Tf 72 700 Td (e\\016cient de\\014nition) Tj ET"], font, &[]));
    assert_eq!(text.unwrap().text, "efficient definition");
}

#[test]
fn a_map_that_claims_every_code_costs_nothing() {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /A /ToUnicode 6 0 R >>";
    let map = stream("", "1 beginbfrange <00000000> <FFFFFFFF> <0000> endbfrange");
    let text = read(&pages(&["BT /F 12 Tf 72 700 Td (ok) Tj ET"], font, &[map])).unwrap().text;
    assert_eq!(text, "ok");
}

#[test]
fn the_title_is_taken_from_the_document() {
    let catalog = "<< /Type /Catalog /Pages 2 0 R >>";
    let page = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>";
    let content = stream("", "BT /F 12 Tf (x) Tj ET");
    let tree = "<< /Type /Pages /Count 1 /Kids [3 0 R] >>";
    let objects = [catalog, tree, page, &content, FONT, "<< /Title ( Tea ) >>"];
    assert_eq!(read(&pdf(&objects, "/Info 6 0 R")).unwrap().title.as_deref(), Some("Tea"));
}

#[test]
fn a_scanned_pdf_says_that_it_needs_ocr() {
    let image = stream(
        "/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray",
        "x",
    );
    let scanned = pages(&["q 612 0 0 792 0 0 cm /X Do Q"], FONT, &[image]);
    assert_eq!(
        read(&scanned).unwrap_err().to_string(),
        "could not read the PDF: it contains no text: run OCR on scanned pages first",
    );
}

#[test]
fn a_font_without_characters_is_another_matter() {
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-H >>";
    let bytes = pages(&["BT /F 12 Tf 72 700 Td <00010002> Tj ET"], font, &[]);
    assert!(matches!(fault(&bytes), PdfError::UnreadableFonts));
}

#[test]
fn an_encrypted_pdf_is_refused() {
    let secret = "<00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff>";
    let encrypt = format!("<< /Filter /Standard /V 1 /R 2 /P -4 /O {secret} /U {secret} >>");
    let catalog = "<< /Type /Catalog /Pages 2 0 R >>";
    let objects = [catalog, "<< /Type /Pages /Count 0 /Kids [] >>", &encrypt];
    let id = "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]";
    let bytes = pdf(&objects, &format!("/Encrypt 3 0 R {id}"));
    assert!(matches!(fault(&bytes), PdfError::Encrypted));
}

#[test]
fn what_is_no_pdf_is_damaged() {
    for bytes in [&b""[..], b"hello", b"%PDF-1.4\n", b"%PDF-1.4\nstartxref\n99999\n%%EOF"] {
        assert!(matches!(fault(bytes), PdfError::Damaged { .. }));
    }
}

#[test]
fn deep_and_circular_structures_end() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let _ = read(&pages(&[&format!("{deep} TJ")], FONT, &[]));
    let _ = read(&pages(&[&"q ".repeat(200_000)], FONT, &[deep]));
    let circular =
        ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Parent 2 0 R >>"];
    assert!(matches!(fault(&pdf(&circular, "")), PdfError::NoText | PdfError::Damaged { .. }));
}

#[test]
fn a_pdf_with_bytes_changed_never_panics() {
    let original = pages(&["BT /F 12 Tf 72 700 Td [(Some) -300 (text)] TJ ET"], FONT, &[]);
    for index in (0..original.len()).step_by(3) {
        for byte in [0, b' ', b'<', b'9', 0xff] {
            let mut damaged = original.clone();
            damaged[index] = byte;
            let _ = read(&damaged);
        }
        let _ = read(&original[..index]);
    }
}
