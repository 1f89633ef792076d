//! PDF, HTML, Markdown and plain text, up to the chunks of their text.

use emergent_documents::{ChunkOptions, Error, Mime, PdfError, chunk, extract};

use super::{Target, owned};

pub const PDF: Target = Target {
    name: "pdf",
    samples: pdf_samples,
    tokens: &[
        "<<",
        ">>",
        "[",
        "]",
        "(",
        ")",
        "\\",
        "obj",
        "endobj",
        "stream\n",
        "\nendstream",
        "xref\n",
        "trailer",
        "startxref\n",
        " 0 R ",
        "1 0 R",
        "2 0 R",
        "5 0 R",
        "/Length",
        "/Filter /FlateDecode",
        "/Filter [/ASCII85Decode /LZWDecode]",
        "/DecodeParms << /Predictor 12 /Columns 4 >>",
        "/Kids [2 0 R]",
        "/Parent 2 0 R",
        "/Type /ObjStm /N 3 /First 10",
        "/Type /XRef /W [1 2 1] /Index [0 9]",
        "/Prev 9",
        "/Encrypt",
        "/ToUnicode 3 0 R",
        "/Encoding << /Differences [0 /a] >>",
        "/Contents [5 0 R 5 0 R]",
        "BT",
        "ET",
        "Tj",
        "TJ",
        "Tf",
        "Td",
        "Tm",
        "cm",
        "q ",
        "Q ",
        "/X Do ",
        "/F 12 Tf ",
        "begincodespacerange",
        "beginbfrange",
        "beginbfchar",
        "<0000> <FFFF>",
        "1e30",
        "-1e30",
        "%",
        "%%EOF",
        "\0",
    ],
    parse: |bytes| text_of(Mime::Pdf, bytes),
    // A compressed stream of this size can hold a thousand times as much.
    max_output: |input| (1 << 20) + 2_000 * input,
};

pub const HTML: Target = Target {
    name: "html",
    samples: || {
        owned(&[
            "<!doctype html><html><head><title>Tea &amp; time</title><meta charset=\"utf-8\"></head><body><h1>Tea</h1>\
             <p>Steep for <b>three</b> minutes.<br>Then drink&nbsp;it.</p><ul><li>One<li>Two</ul><pre> a\n  b</pre>\
             <table><tr><td>1<td>2</table><script>if (a < b) { x() }</script><style>p { }</style><!-- no --></body></html>",
            "<p>&#65;&#x1F600;&notin;&unknown;<svg><title>x</title></svg><textarea>a</textarea>",
            "<div hidden>x</div><a href='/y'>y</a><img alt=\"z\">",
        ])
    },
    tokens: &[
        "<",
        ">",
        "</",
        "/>",
        "<p>",
        "</p>",
        "<div>",
        "</div>",
        "<h1>",
        "<h6>",
        "<li>",
        "<ul>",
        "<pre>",
        "<table>",
        "<td>",
        "<script>",
        "</script>",
        "<style>",
        "<textarea>",
        "<title>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<!doctype",
        "&",
        "&amp;",
        "&#x10FFFF;",
        "&#0;",
        "&notinva;",
        "<svg>",
        "<template>",
        "<noscript>",
        "\"",
        "'",
        "=",
        "\0",
        "\u{feff}",
        "<meta charset=utf-16>",
    ],
    parse: |bytes| text_of(Mime::HTML, bytes),
    max_output: |input| (64 << 10) + 32 * input,
};

pub const MARKDOWN: Target = Target {
    name: "markdown",
    samples: || {
        owned(&[
            "# Tea\n\nSteep for **three** minutes, *not* `four`.\n\n- one\n- two\n  1. three\n\n> quoted\n\n```rust\nfn a() {}\n```\n\n\
             | a | b |\n|---|---|\n| 1 | 2 |\n\n[link](http://x \"t\") ![image](y) <b>html</b>\n\nSetext\n======\n\n[ref]: /url\n",
            "---\ntitle: front\n---\n\n# A\n\n## B\n\ntext[^1]\n\n[^1]: note\n\n- [ ] task\n",
        ])
    },
    tokens: &[
        "#", "# ", "\n", "\n\n", "> ", "- ", "* ", "1. ", "**", "__", "*", "_", "`", "```\n", "~~~", "~~",
        "[", "]", "(", ")", "![", "](", "<", ">", "<a>", "|", "|---|", "\\", "&amp;", "===\n", "---\n",
        "    ", "\t", "[^1]", "[^1]: ", "[a]: b\n", "<!--", "\0", "\u{feff}", "- [x] ",
    ],
    parse: |bytes| text_of(Mime::MARKDOWN, bytes),
    max_output: |input| (64 << 10) + 32 * input,
};

pub const PLAIN: Target = Target {
    name: "text",
    samples: || {
        owned(&["One. Two, three!\n\nA paragraph of e.g. 3.14 words.\n", "一二三。四五六。\u{a0}e\u{301}"])
    },
    tokens: &[
        "\n\n",
        "\r\n",
        ". ",
        "。",
        "\u{feff}",
        "\0",
        "\u{200d}",
        "e\u{301}",
        "\u{1F468}\u{200d}\u{1F469}",
        " ",
        "\u{a0}",
    ],
    parse: |bytes| text_of(Mime::TEXT, bytes),
    max_output: |input| (64 << 10) + 32 * input,
};

/// Extracts the text and splits it into chunks.
fn text_of(mime: Mime, bytes: &[u8]) -> Result<String, String> {
    let extracted = match extract(mime, bytes) {
        Ok(extracted) => extracted,
        Err(Error::Pdf(error @ (PdfError::Crashed { .. } | PdfError::TooSlow(_) | PdfError::Busy))) => {
            return Err(error.to_string());
        }
        Err(error) => return Ok(format!("error {error}")),
    };
    if extracted.text.contains('\0') {
        return Err("the text has a NUL character".to_owned());
    }
    let mut output = format!("{:?} {:?} {}", extracted.title, extracted.headings, extracted.text);
    for chunk in chunk(&extracted, &ChunkOptions::default()) {
        if extracted.text.get(chunk.start..chunk.end).is_none() {
            return Err(format!("the chunk {} to {} is not a part of the text", chunk.start, chunk.end));
        }
        output += &format!(" {}-{}", chunk.start, chunk.end);
    }
    Ok(output)
}

fn pdf_samples() -> Vec<Vec<u8>> {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";
    let mapped = "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 6 0 R >>";
    let map = "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange \
               1 beginbfrange <0000> <005E> <0020> endbfrange 1 beginbfchar <0060> <00410042> endbfchar endcmap end";
    let content = "BT /F 12 Tf 72 720 Td (Tea and ) Tj [(ti) -20 (me)] TJ 0 -14 Td <0041> Tj ET q 1 0 0 1 5 5 cm /X Do Q";
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /Font << /F 3 0 R >> >>",
        content.as_bytes(),
    );
    vec![
        pdf(font, stream("", content.as_bytes()), form.clone()),
        pdf(mapped, stream("", content.as_bytes()), stream("", map.as_bytes())),
        pdf(font, stream("/Filter /FlateDecode", &stored_zlib(content.as_bytes())), form),
    ]
}

/// Builds a PDF of one page. The objects are: catalog, pages, font, page, content, and one more.
fn pdf(font: &str, content: Vec<u8>, more: Vec<u8>) -> Vec<u8> {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R \
                /Resources << /Font << /F 3 0 R >> /XObject << /X 6 0 R >> >> >>";
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>".to_vec(),
        font.as_bytes().to_vec(),
        page.as_bytes().to_vec(),
        content,
        more,
    ];
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = String::from("xref\n0 7\n0000000000 65535 f \n");
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", file.len());
        file.extend(format!("{} 0 obj\n", index + 1).into_bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    file.extend(table.into_bytes());
    file.extend(format!("trailer\n<< /Size 7 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").into_bytes());
    file
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dictionary} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend(content);
    object.extend(b"\nendstream");
    object
}

/// The bytes in the format of zlib, without being compressed.
fn stored_zlib(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short content");
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in content {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    let mut bytes = vec![0x78, 0x01, 0x01];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(content);
    bytes.extend(((high << 16) | low).to_be_bytes());
    bytes
}
