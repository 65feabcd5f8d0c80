//! Definitions: registering and reading them.

use amends_core::definition::{Diagnostic, from_json, from_toml};
use amends_core::{Definition, json};
use amends_store::StoredDefinition;

use crate::definitions::Known;
use crate::node::Node;
use crate::{DefinitionText, Engine, Refused, Registered, intake};

impl Engine {
    /// Registers a definition. The same content again is known; another content under the same version is refused.
    ///
    /// # Errors
    /// [`Refused::InvalidDefinition`] with all problems, [`Refused::DefinitionConflict`], or the store's.
    pub async fn register(&self, text: DefinitionText, name_in_path: &str) -> Result<Registered, Refused> {
        let node = self.node();
        let checked = match &text {
            DefinitionText::Toml(text) => from_toml(text),
            DefinitionText::Json(text) => from_json(text),
        };
        let checked = checked.map_err(Refused::InvalidDefinition)?;
        if checked.definition.name != name_in_path {
            return Err(Refused::InvalidDefinition(vec![misnamed(&checked.definition, name_in_path)]));
        }
        let definition = checked.definition.clone();
        let (name, version) = (definition.name.clone(), definition.version);
        let stored = StoredDefinition {
            name: name.clone(),
            version,
            digest: definition.digest.clone(),
            tree: json::canonical(&definition.tree),
            created_at: node.now(),
        };
        let registered = node.again(|| node.store.register(stored.clone())).await.map_err(Refused::Store)?;
        node.definitions.forget_highest(&name);
        match registered {
            Ok(true) => {
                intake::defined(node, &name).await;
                Ok(node.registered(&node.known(checked, stored.created_at), true))
            }
            Ok(false) => {
                let known = node.definition_by_name(&name, Some(version)).await.map_err(Refused::Store)?;
                let known = known.unwrap_or_else(|| node.known(checked, stored.created_at));
                Ok(node.registered(&known, false))
            }
            Err(StoredDefinition { digest, .. }) => {
                Err(Refused::DefinitionConflict { name, version, digest })
            }
        }
    }

    /// A definition by name, the given version or the highest.
    ///
    /// # Errors
    /// [`Refused::UnknownDefinition`], or the store's.
    pub async fn definition(&self, name: &str, version: Option<u64>) -> Result<Registered, Refused> {
        let node = self.node();
        let known = node.definition_by_name(name, version).await.map_err(Refused::Store)?;
        let words = || version.map_or_else(|| name.to_owned(), |version| format!("{name} version {version}"));
        let known = known.ok_or_else(|| Refused::UnknownDefinition(words()))?;
        Ok(node.registered(&known, false))
    }

    /// Up to `limit` definitions after (name, version), in that order.
    ///
    /// # Errors
    /// The store's; also if one of them cannot be read by this version.
    pub async fn definitions(
        &self,
        after: Option<(String, u64)>,
        limit: usize,
    ) -> Result<Vec<Registered>, Refused> {
        let node = self.node();
        let stored = node.store.list(after, limit).await.map_err(Refused::Store)?;
        let read = stored.iter().map(|stored| node.read(stored).map(|known| node.registered(&known, false)));
        read.collect::<Result<_, _>>().map_err(Refused::Store)
    }
}

impl Node {
    fn registered(&self, known: &Known, created: bool) -> Registered {
        let mut warnings = known.warnings.clone();
        warnings.extend(self.unknown_participants(&known.definition));
        Registered { definition: known.definition.clone(), created, warnings, created_at: known.created_at }
    }

    /// A participant that the configuration does not name is a configuration fault when it is called.
    fn unknown_participants(&self, definition: &Definition) -> Vec<Diagnostic> {
        let Some(configured) = &self.config.participants else { return Vec::new() };
        let unknown = definition.participants.keys().filter(|name| !configured.contains(name));
        let warning = |name: &String| Diagnostic {
            line: 0,
            path: format!("participants.{name}"),
            reason: format!("this server does not know where `{name}` is, so that calls to it wait"),
            remedy: format!("name it in amends.toml: [participants.{name}] with its url"),
        };
        unknown.map(warning).collect()
    }
}

fn misnamed(definition: &Definition, name_in_path: &str) -> Diagnostic {
    Diagnostic {
        line: 0,
        path: "saga".to_owned(),
        reason: format!("the definition is named `{}`, the path says `{name_in_path}`", definition.name),
        remedy: "make them the same".to_owned(),
    }
}
