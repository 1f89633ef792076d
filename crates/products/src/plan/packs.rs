//! Plans the template packs of a product. An identical existing pack is used as it is, regardless
//! of who created it. Only packs that the product itself created are ever deleted. A pack that is
//! assigned by the product is unassigned with it; a pack that the project assigned itself remains
//! assigned.

use emergent_domain::pack::TemplatePack;
use emergent_store::packs::StoredPack;
use serde_json::Value;

use super::{Action, ItemKind, PlanBuilder, StepChange};
use crate::{
    diff::{diff, json_eq},
    problem::ManifestProblem,
    state::Product,
};

fn json(pack: &TemplatePack) -> Value {
    serde_json::to_value(pack).unwrap_or_default()
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_packs(&mut self) {
        let planned: &'a [TemplatePack] = self.after.map_or(&[], |manifest| &manifest.template_packs);
        self.plan_pack_removals(planned);
        for (index, pack) in planned.iter().enumerate() {
            self.plan_pack(index, pack);
        }
        // The packs were compiled when the manifest was read, and each type has its own rules. Nothing is compiled here:
        // the plan is made in the transaction of the change.
    }

    pub(super) fn plan_pack(&mut self, index: usize, pack: &TemplatePack) {
        let base = format!("/template_packs/{index}");
        let packs = &self.before.packs;
        let of_version: Vec<&StoredPack> = packs
            .iter()
            .filter(|stored| stored.pack.name == pack.name && stored.pack.version == pack.version)
            .collect();
        let equal = of_version.iter().find(|stored| json_eq(&json(&stored.pack), &json(pack))).copied();
        if equal.is_none() && !of_version.is_empty() {
            let message = format!(
                "version {} of the pack `{}` already exists with different content",
                pack.version, pack.name
            );
            self.problems.push(
                ManifestProblem::new(format!("{base}/version"), message)
                    .with_fix("publish the change as a new version"),
            );
            return;
        }
        let assigned = packs.iter().find(|stored| stored.assigned && stored.pack.name == pack.name);
        match (assigned, equal) {
            (Some(assigned), Some(equal)) if assigned.id == equal.id => {
                self.push_step(ItemKind::TemplatePack, &pack.name, StepChange::Keep, Action::None);
            }
            (Some(assigned), _) if !self.may_replace(assigned) => {
                let message = format!(
                    "version {} of the pack `{}` is assigned, and not by this product alone",
                    assigned.pack.version, pack.name
                );
                let fix =
                    format!("unassign it first, or include version {} unchanged", assigned.pack.version);
                self.problems.push(ManifestProblem::new(format!("{base}/name"), message).with_fix(fix));
            }
            (assigned, equal) => {
                let change = match assigned {
                    Some(assigned) => StepChange::Update(diff(&json(&assigned.pack), &json(pack))),
                    None => StepChange::Add,
                };
                let action = match equal {
                    Some(equal) => Action::AssignPack(equal.id),
                    None => Action::AddPack(Box::new(pack.clone())),
                };
                self.push_step(ItemKind::TemplatePack, &pack.name, change, action);
            }
        }
    }

    /// Returns whether only this product uses the assigned pack.
    fn may_replace(&self, assigned: &StoredPack) -> bool {
        self.is_assigned_for_us(assigned) && self.other_user_of(assigned).is_none()
    }

    fn owns_pack(&self, stored: &StoredPack) -> bool {
        stored.product.as_deref() == Some(self.name)
    }

    fn is_assigned_for_us(&self, stored: &StoredPack) -> bool {
        stored.assigned && stored.assigned_by.as_deref() == Some(self.name)
    }

    /// Returns another product whose manifest contains this version of the pack.
    fn other_user_of(&self, stored: &StoredPack) -> Option<String> {
        let has = |pack: &TemplatePack| pack.name == stored.pack.name && pack.version == stored.pack.version;
        let names = |installed: &&Product| {
            installed.manifest.as_ref().is_some_and(|manifest| manifest.template_packs.iter().any(has))
        };
        let mut others = self.before.installed.iter().filter(|installed| installed.name != self.name);
        others.find(names).map(|installed| installed.name.clone())
    }

    /// Returns whether the product created or assigned the pack, and its new manifest no longer
    /// contains it.
    fn releases(&self, stored: &StoredPack, planned: &[TemplatePack]) -> bool {
        (self.owns_pack(stored) || self.is_assigned_for_us(stored))
            && !planned.iter().any(|pack| pack.name == stored.pack.name)
    }

    /// Returns who takes over a pack that the product releases.
    fn next_owner(&self, stored: &StoredPack) -> Option<PackOwner> {
        if let Some(product) = self.other_user_of(stored) {
            return Some(PackOwner::Product(product));
        }
        match &stored.assigned_by {
            _ if !stored.assigned => None,
            Some(product) if product == self.name => None,
            Some(product) => Some(PackOwner::Product(product.clone())),
            None => Some(PackOwner::Project),
        }
    }

    fn plan_pack_removals(&mut self, planned: &[TemplatePack]) {
        let packs = &self.before.packs;
        let released: Vec<_> = packs.iter().filter(|stored| self.releases(stored, planned)).collect();
        for stored in released {
            let id = stored.id;
            let (brought, assigned) = (self.owns_pack(stored), self.is_assigned_for_us(stored));
            let action = match self.next_owner(stored) {
                Some(heir) => {
                    let to = heir.product();
                    let action = Action::TransferPack { id, to, brought, assigned };
                    self.push_step(ItemKind::TemplatePack, &stored.pack.name, StepChange::Keep, action);
                    continue;
                }
                None if brought => Action::DeletePack { id, assigned: stored.assigned },
                None => Action::UnassignPack(id),
            };
            // Older versions were stored so that a downgrade is possible.
            let name = match stored.assigned {
                true => stored.pack.name.clone(),
                false => format!("{}@{}", stored.pack.name, stored.pack.version),
            };
            self.push_step(ItemKind::TemplatePack, name, StepChange::Remove, action);
        }
    }
}

/// The new owner of a pack when its product is removed.
enum PackOwner {
    Product(String),
    Project,
}

impl PackOwner {
    fn product(self) -> Option<String> {
        match self {
            Self::Product(name) => Some(name),
            Self::Project => None,
        }
    }
}
