//! Definitions, and what was found wrong with them.

use amends_core::definition::Diagnostic;
use amends_engine::Registered;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Stamp;

/// A registered definition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Definition)]
pub(crate) struct DefinitionDto<'a> {
    #[serde(flatten)]
    item: DefinitionItem,
    /// The definition as it was given, as a tree.
    #[schema(value_type = Value)]
    definition: &'a Value,
}

/// What a list shows of a definition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefinitionSummary)]
pub(crate) struct DefinitionItem {
    name: String,
    version: u64,
    /// SHA-256 of its canonical tree, in hexadecimal digits: what sagas are pinned to.
    digest: String,
    /// When it was registered.
    created_at: Stamp,
    /// What may be wrong with it.
    warnings: Vec<DiagnosticDto>,
}

impl From<&Registered> for DefinitionItem {
    fn from(registered: &Registered) -> Self {
        Self {
            name: registered.definition.name.clone(),
            version: registered.definition.version,
            digest: registered.definition.digest.clone(),
            created_at: Stamp(registered.created_at),
            warnings: registered.warnings.iter().cloned().map(DiagnosticDto::from).collect(),
        }
    }
}

impl<'a> From<&'a Registered> for DefinitionDto<'a> {
    fn from(registered: &'a Registered) -> Self {
        Self { item: registered.into(), definition: &registered.definition.tree }
    }
}

/// A page of definitions, by name and version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionList {
    pub(crate) items: Vec<DefinitionItem>,
    /// The cursor of the next page; null on the last.
    pub(crate) next: Option<String>,
}

/// A problem or warning of a definition.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(crate) struct DiagnosticDto {
    /// The line in the text, from 1; null if the definition was not read from a text.
    line: Option<usize>,
    /// The place in the tree, such as `step[1].action.retry`; empty for the whole text.
    path: String,
    /// What is wrong.
    reason: String,
    /// What to do about it.
    remedy: String,
}

impl From<Diagnostic> for DiagnosticDto {
    fn from(found: Diagnostic) -> Self {
        let Diagnostic { line, path, reason, remedy } = found;
        Self { line: (line > 0).then_some(line), path, reason, remedy }
    }
}
