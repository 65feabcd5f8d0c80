//! Rules on the crates of the workspace and who may depend on whom.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use super::tree::Tree;

/// The crates that each crate may depend on, and those that its tests may use besides. What is not here is not
/// allowed: a new crate or edge is a line in this table and a reason in its commit.
const EDGES: &[Edges] = &[
    allow("amends-core", &[], &[]),
    allow("amends-check", &["core"], &[]),
    allow("amends-store", &["core"], &[]),
    allow("amends-sqlite", STORE, &[]),
    allow("amends-postgres", STORE, &["testbed"]),
    allow("amends-mysql", STORE, &["testbed"]),
    // It also carries out effects of sagas.
    allow("amends-redis", &["core", "store", "participants"], &["testbed"]),
    // It is part of a participant, and knows the engine by what is on the wire alone.
    allow("amends-inbox", &[], &["testbed"]),
    // Servers for tests.
    allow("amends-testbed", &[], &[]),
    // The port through which participants are called, and nothing else of that crate: see `ports::engine_calls_by_port`.
    allow("amends-engine", &["core", "store", "participants"], &["sqlite"]),
    allow("amends-participants", &["core"], &[]),
    // Callbacks carry the signatures that participants' calls do.
    allow("amends-server", &["core", "store", "engine", "participants"], &["sqlite", "redis", "testbed"]),
    allow("amends-sim", &["core", "store", "engine", "participants"], &["check", "sqlite"]),
    allow(
        "amends",
        &[
            "core",
            "check",
            "store",
            "engine",
            "participants",
            "sqlite",
            "postgres",
            "mysql",
            "redis",
            "inbox",
        ],
        &["sim", "testbed"],
    ),
    // What it holds is checked by the compiler.
    allow("amends-compile-fail", &["amends"], &[]),
    allow(
        "amends-cli",
        &[
            "core",
            "check",
            "store",
            "engine",
            "participants",
            "server",
            "shop",
            "sqlite",
            "postgres",
            "mysql",
            "redis",
        ],
        &["sim", "testbed"],
    ),
    // The other side of the wire: they know the engine by its addresses alone, so they would find its faults.
    allow("amends-shop", &[], &["core"]),
    allow("amends-torture", &["shop", "testbed"], &[]),
    // It calls the parsers of all of them.
    allow("amends-fuzz-targets", &["core", "store", "engine", "participants", "server"], &[]),
    allow("xtask", &[], &[]),
];

/// What a store may depend on.
const STORE: &[&str] = &["core", "store"];

/// What must not be found among the dependencies of the core, at any depth: async, network, randomness, storage.
const IMPURE: &[&str] =
    &["tokio", "hyper", "rand", "reqwest", "axum", "rusqlite", "mio", "socket2", "async-std"];

struct Edges {
    package: &'static str,
    product: &'static [&'static str],
    tests: &'static [&'static str],
}

const fn allow(
    package: &'static str,
    product: &'static [&'static str],
    tests: &'static [&'static str],
) -> Edges {
    Edges { package, product, tests }
}

/// A package as cargo sees it.
pub(super) struct Package {
    name: String,
    /// From the root of the workspace; those from elsewhere have none.
    manifest: Option<String>,
    description: Option<String>,
    license: Option<String>,
    dependencies: Vec<Dependency>,
    /// What its build takes in, tests left aside, as positions in the list of packages.
    built_with: Vec<usize>,
}

struct Dependency {
    name: String,
    is_for_tests: bool,
}

/// The host triple in what `rustc -vV` writes: dependencies of other platforms are none of ours.
pub(super) fn host(version: &str) -> Result<String> {
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// Reads what `cargo metadata` writes.
pub(super) fn packages(metadata: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata did not write JSON")?;
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no workspace root")?;
    let listed = list(&metadata["packages"]);
    let position: HashMap<&str, usize> =
        listed.iter().enumerate().filter_map(|(at, p)| Some((p["id"].as_str()?, at))).collect();
    let mut packages: Vec<Package> = listed.iter().map(|package| Package::read(package, root)).collect();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(at) = node["id"].as_str().and_then(|id| position.get(id)) else { continue };
        let for_build = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        let built_with = list(&node["deps"]).iter().filter(for_build).filter_map(|dep| dep["pkg"].as_str());
        packages[*at].built_with = built_with.filter_map(|id| position.get(id).copied()).collect();
    }
    Ok(packages)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Package {
    fn read(package: &Value, root: &str) -> Self {
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        let is_ours = package["source"].is_null();
        let manifest = text("manifest_path").filter(|_| is_ours);
        let dependency = |dependency: &Value| {
            let name = dependency["name"].as_str()?.to_owned();
            Some(Dependency { name, is_for_tests: dependency["kind"] == "dev" })
        };
        Self {
            name: text("name").unwrap_or_default(),
            manifest: manifest.map(|path| path.trim_start_matches(root).trim_start_matches('/').to_owned()),
            description: text("description"),
            license: text("license"),
            dependencies: list(&package["dependencies"]).iter().filter_map(dependency).collect(),
            built_with: Vec::new(),
        }
    }
}

/// The packages of the workspace, each with its manifest.
fn ours(packages: &[Package]) -> impl Iterator<Item = (&Package, &str)> {
    packages.iter().filter_map(|package| Some((package, package.manifest.as_deref()?)))
}

/// Crates of the workspace depend on each other only as [`EDGES`] says.
pub(super) fn edges(packages: &[Package]) -> Vec<Finding> {
    let names: HashSet<&str> = ours(packages).map(|(package, _)| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for (package, manifest) in ours(packages) {
        let Some(allowed) = EDGES.iter().find(|edges| edges.package == package.name) else {
            let message =
                format!("{} is not in the table of crates (xtask/src/tidy/crates.rs)", package.name);
            findings.push(Finding::new(manifest, 0, message));
            continue;
        };
        for dependency in
            package.dependencies.iter().filter(|dependency| names.contains(dependency.name.as_str()))
        {
            let short = dependency.name.strip_prefix("amends-").unwrap_or(&dependency.name);
            let for_tests = dependency.is_for_tests
                && (allowed.tests.contains(&short) || dependency.name == package.name);
            if !for_tests && !allowed.product.contains(&short) {
                let whose = if dependency.is_for_tests { "the tests of " } else { "" };
                let message = format!("{whose}{} must not depend on {}", package.name, dependency.name);
                findings.push(Finding::new(manifest, 0, message));
            }
        }
    }
    findings
}

/// Nothing that the core is built with, however far down, is async, does I/O or makes random numbers.
pub(super) fn pure_core(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (core, manifest) in ours(packages).filter(|(package, _)| package.name == "amends-core") {
        let mut seen = HashSet::new();
        let mut waiting = core.built_with.clone();
        while let Some(at) = waiting.pop() {
            if seen.insert(at) {
                waiting.extend(&packages[at].built_with);
            }
        }
        for name in seen.into_iter().map(|at| packages[at].name.as_str()).filter(|name| IMPURE.contains(name))
        {
            let message = format!(
                "the core must not be built with {name}; `cargo tree -p amends-core -i {name}` says why it is"
            );
            findings.push(Finding::new(manifest, 0, message));
        }
    }
    findings
}

/// Each crate says what it is for and under which licence.
pub(super) fn metadata(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, manifest) in ours(packages) {
        for (field, value) in [("description", &package.description), ("license", &package.license)] {
            if value.as_deref().is_none_or(|value| value.trim().is_empty()) {
                findings.push(Finding::new(manifest, 0, format!("has no `{field}`")));
            }
        }
    }
    findings
}

/// Each crate takes the lints of the workspace: without the line it would have none.
pub(super) fn shared_lints(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path != "Cargo.toml" && file.name() == "Cargo.toml");
    let takes_lints = |text: &str| {
        let lints = text.lines().skip_while(|line| line.trim() != "[lints]").nth(1);
        lints.is_some_and(|line| line.trim() == "workspace = true")
    };
    manifests
        .filter(|file| !takes_lints(&file.text))
        .map(|file| {
            Finding::new(
                &file.path,
                0,
                "does not take the lints of the workspace: `[lints]`, `workspace = true`",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of these packages: name, dependencies, dependencies of tests. Those with a dash or named `xtask`
    /// are ours.
    fn workspace(packages: &[(&str, &[&str], &[&str])]) -> Vec<Package> {
        let described = packages.iter().map(|(name, product, tests)| {
            let is_ours = name.contains('-') || *name == "xtask";
            let kinds =
                product.iter().map(|to| (to, Value::Null)).chain(tests.iter().map(|to| (to, json!("dev"))));
            json!({
                "id": name, "name": name, "description": "d", "license": "l",
                "source": if is_ours { Value::Null } else { json!("registry") },
                "manifest_path": format!("/root-of-it/{name}/Cargo.toml"),
                "dependencies": kinds.map(|(to, kind)| json!({"name": to, "kind": kind})).collect::<Vec<_>>(),
            })
        });
        let nodes = packages.iter().map(|(name, product, tests)| {
            let kinds =
                product.iter().map(|to| (to, Value::Null)).chain(tests.iter().map(|to| (to, json!("dev"))));
            let deps: Vec<_> =
                kinds.map(|(to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]})).collect();
            json!({"id": name, "deps": deps})
        });
        let metadata = json!({
            "workspace_root": "/root-of-it",
            "packages": described.collect::<Vec<_>>(),
            "resolve": {"nodes": nodes.collect::<Vec<_>>()},
        });
        super::packages(&metadata.to_string()).unwrap()
    }

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let packages = workspace(&[
            ("amends-core", &["serde"], &[]),
            ("amends-store", &["amends-core"], &[]),
            ("amends-sqlite", &["amends-core", "amends-store"], &["amends-store"]),
            ("amends-engine", &["amends-core", "amends-store"], &["amends-sqlite"]),
            ("amends-cli", &["amends-engine", "amends-sqlite"], &[]),
            ("serde", &[], &[]),
        ]);
        assert_eq!(messages(edges(&packages)), [""; 0]);
    }

    #[test]
    fn forbidden_edges_are_found() {
        for (package, product, tests) in [
            ("amends-core", "amends-store", ""),
            ("amends-store", "amends-engine", ""),
            ("amends-store", "", "amends-sqlite"),
            ("amends-sqlite", "amends-engine", ""),
            ("amends-engine", "amends-sqlite", ""),
            ("amends-participants", "amends-engine", ""),
            ("amends-server", "amends-sqlite", ""),
            ("xtask", "amends-core", ""),
        ] {
            let only = |name: &'static str| if name.is_empty() { vec![] } else { vec![name] };
            let (product, tests) = (only(product), only(tests));
            let other = *product.iter().chain(&tests).next().unwrap();
            let packages = workspace(&[(package, &product, &tests), (other, &[], &[])]);
            let found = messages(edges(&packages));
            assert_eq!(found.len(), 1, "{package} to {other}: {found:?}");
            assert!(found[0].contains(package) && found[0].contains(other), "{found:?}");
        }
    }

    #[test]
    fn crate_that_the_table_lacks_is_found() {
        assert!(messages(edges(&workspace(&[("amends-new", &[], &[])])))[0].contains("not in the table"));
    }

    #[test]
    fn stores_never_see_each_other() {
        let backends = ["sqlite", "postgres", "mysql", "redis"];
        for edges in
            EDGES.iter().filter(|edges| backends.iter().any(|name| edges.package == format!("amends-{name}")))
        {
            assert!(
                edges.product.iter().chain(edges.tests).all(|name| !backends.contains(name)),
                "{}",
                edges.package
            );
        }
    }

    #[test]
    fn impure_dependency_of_the_core_is_found_at_any_depth_but_not_in_tests() {
        let packages = workspace(&[
            ("amends-core", &["serde"], &["proptest"]),
            ("serde", &["helper"], &[]),
            ("helper", &["tokio"], &[]),
            ("proptest", &["rand"], &[]),
            ("tokio", &[], &[]),
            ("rand", &[], &[]),
        ]);
        let found = messages(pure_core(&packages));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("tokio"), "{found:?}");
    }

    #[test]
    fn crate_without_description_or_licence_is_found() {
        let mut packages = workspace(&[("amends-core", &[], &[]), ("serde", &[], &[])]);
        assert!(metadata(&packages).is_empty());
        packages[0].description = None;
        packages[0].license = Some(" ".to_owned());
        packages[1].license = None;
        let expected =
            ["amends-core/Cargo.toml: has no `description`", "amends-core/Cargo.toml: has no `license`"];
        assert_eq!(messages(metadata(&packages)), expected);
    }

    #[test]
    fn crate_without_the_shared_lints_is_found() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\n"),
            ("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"),
            ("crates/b/Cargo.toml", "[package]\n"),
            ("crates/c/Cargo.toml", "[lints]\nworkspace = false\n"),
        ]);
        let paths: Vec<String> = shared_lints(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["crates/b/Cargo.toml", "crates/c/Cargo.toml"]);
    }

    #[test]
    fn host_is_read_from_the_compilers_words() {
        assert_eq!(
            host("rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n").unwrap(),
            "x86_64-unknown-linux-gnu"
        );
        assert!(host("rustc 1.95.0").is_err());
    }
}
