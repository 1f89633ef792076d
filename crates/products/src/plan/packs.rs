//! Template packs of a plan. A pack that is there already, to the letter, is used as it is, whoever
//! brought it; only packs that are the product's own are ever taken away.

use emergent_domain::pack::{PackSet, TemplatePack};
use emergent_store::packs::StoredPack;
use serde_json::Value;

use super::{Action, Change, Draft, What};
use crate::{
    diff::{diff, same},
    problem::Problem,
};

fn json(pack: &TemplatePack) -> Value {
    serde_json::to_value(pack).unwrap_or_default()
}

impl<'a> Draft<'a> {
    pub(super) fn packs(&mut self) {
        let wanted: &'a [TemplatePack] = self.after.map_or(&[], |manifest| &manifest.template_packs);
        self.drop_packs(wanted);
        for (index, pack) in wanted.iter().enumerate() {
            self.pack(index, pack);
        }
        // Packs that cannot be compiled together would block every write.
        let stays = |stored: &&StoredPack| {
            stored.assigned
                && !self.goes(stored, wanted)
                && !wanted.iter().any(|pack| pack.name == stored.pack.name)
        };
        let mut all: Vec<TemplatePack> =
            self.before.packs.iter().filter(stays).map(|stored| stored.pack.clone()).collect();
        all.extend(wanted.iter().cloned());
        if let Err(invalid) = PackSet::compile(&all)
            && !wanted.is_empty()
        {
            let problem =
                Problem::new("/template_packs", format!("do not go together with the project's: {invalid}"));
            self.problems.push(problem);
        }
    }

    fn pack(&mut self, index: usize, pack: &TemplatePack) {
        let base = format!("/template_packs/{index}");
        let packs = &self.before.packs;
        let of_version: Vec<&StoredPack> = packs
            .iter()
            .filter(|one| one.pack.name == pack.name && one.pack.version == pack.version)
            .collect();
        let equal = of_version.iter().find(|one| same(&json(&one.pack), &json(pack))).copied();
        if equal.is_none() && !of_version.is_empty() {
            let message = format!(
                "version {} of the pack `{}` is there already with other content",
                pack.version, pack.name
            );
            self.problems
                .push(Problem::new(format!("{base}/version"), message).fix("a change is a new version"));
            return;
        }
        let assigned = packs.iter().find(|one| one.assigned && one.pack.name == pack.name);
        match (assigned, equal) {
            (Some(assigned), Some(equal)) if assigned.id == equal.id => {
                self.step(What::TemplatePack, &pack.name, Change::Keep, Action::Nothing);
            }
            (Some(assigned), _) if !self.may_replace(assigned) => {
                let message = format!(
                    "version {} of the pack `{}` is in use and is not this product's alone",
                    assigned.pack.version, pack.name
                );
                let fix = format!("unassign it first, or bring version {} as it is", assigned.pack.version);
                self.problems.push(Problem::new(format!("{base}/name"), message).fix(fix));
            }
            (assigned, equal) => {
                let change = match assigned {
                    Some(assigned) => Change::Update(diff(&json(&assigned.pack), &json(pack))),
                    None => Change::Add,
                };
                let action = match equal {
                    Some(equal) => Action::AssignPack(equal.id),
                    None => Action::AddPack(Box::new(pack.clone())),
                };
                self.step(What::TemplatePack, &pack.name, change, action);
            }
        }
    }

    /// Whether the pack is in use because of this product, and of no other.
    fn may_replace(&self, assigned: &StoredPack) -> bool {
        let ours = assigned.product.as_deref() == Some(self.name)
            || self.named_by(assigned).any(|one| one == self.name);
        ours && self.named_by(assigned).all(|product| product == self.name)
    }

    /// The installed products whose manifests have this pack in this version.
    fn named_by(&self, stored: &'a StoredPack) -> impl Iterator<Item = &'a str> {
        self.before.installed.iter().filter_map(move |installed| {
            let packs = &installed.manifest.as_ref()?.template_packs;
            let has =
                |pack: &TemplatePack| pack.name == stored.pack.name && pack.version == stored.pack.version;
            packs.iter().any(has).then_some(installed.name.as_str())
        })
    }

    fn goes(&self, stored: &StoredPack, wanted: &[TemplatePack]) -> bool {
        let ours = stored.product.as_deref() == Some(self.name);
        ours && !wanted.iter().any(|pack| pack.name == stored.pack.name)
            && self.named_by_another(stored).is_none()
    }

    fn named_by_another(&self, stored: &StoredPack) -> Option<String> {
        let before = self.before;
        let mut others = before.installed.iter().filter(|installed| installed.name != self.name);
        let has = |pack: &TemplatePack| pack.name == stored.pack.name && pack.version == stored.pack.version;
        others
            .find(|installed| {
                installed.manifest.as_ref().is_some_and(|one| one.template_packs.iter().any(has))
            })
            .map(|installed| installed.name.clone())
    }

    fn drop_packs(&mut self, wanted: &[TemplatePack]) {
        let before = self.before;
        let ours = before.packs.iter().filter(|stored| stored.product.as_deref() == Some(self.name));
        for stored in ours.filter(|stored| !wanted.iter().any(|pack| pack.name == stored.pack.name)) {
            let id = stored.id;
            match self.named_by_another(stored) {
                Some(to) => {
                    self.step(
                        What::TemplatePack,
                        &stored.pack.name,
                        Change::Keep,
                        Action::HandOverPack { id, to },
                    );
                }
                None => {
                    let action = Action::DropPack { id, assigned: stored.assigned };
                    // Older versions were kept for a way back.
                    let name = match stored.assigned {
                        true => stored.pack.name.clone(),
                        false => format!("{}@{}", stored.pack.name, stored.pack.version),
                    };
                    self.step(What::TemplatePack, name, Change::Remove, action);
                }
            }
        }
    }
}
