//! The stand-in crates beside this one have what some versions of CubeCL use of the originals, and no more. Here a newer
//! CubeCL is noticed before it fails to compile or, worse, brings the originals back.

/// A crate that is replaced by one in `kernels/`.
struct StandIn {
    folder: &'static str,
    original: &'static str,
    /// The crates that use it, in the versions that it was written for.
    users: &'static [(&'static str, &'static str)],
}

const STAND_INS: [StandIn; 2] = [
    StandIn {
        folder: "no-llvm",
        original: "cubecl-llvm",
        users: &[
            ("cubecl-cpu", "0.11.3"),
            ("cubecl-cuda", "0.11.3"),
            ("cubecl-hip", "0.11.3"),
        ],
    },
    StandIn {
        folder: "no-turso",
        original: "turso",
        users: &[("cubecl-environment", "0.11.3")],
    },
];

/// What `key` is in a package of a lock file.
fn value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let start = format!("{key} = \"");
    let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
    line.strip_suffix('"')
}

/// What is wrong with a stand-in, as seen from a lock file.
fn trouble(stand_in: &StandIn, lock: &str) -> Option<String> {
    let StandIn {
        folder,
        original,
        users,
    } = stand_in;
    let packages = || lock.split("[[package]]").skip(1);
    let replaced = packages().filter(|package| value(package, "name") == Some(original));
    for package in replaced {
        if value(package, "source").is_some() {
            let version = value(package, "version").unwrap_or("?");
            return Some(format!(
                "{original} {version} itself is built, not kernels/{folder}: give that the version that is asked for"
            ));
        }
    }
    let entry = format!("\"{original}\"");
    let found: Vec<_> = packages()
        .filter(|package| {
            package
                .lines()
                .any(|line| line.trim().trim_end_matches(',') == entry)
        })
        .filter_map(|package| Some((value(package, "name")?, value(package, "version")?)))
        .collect();
    (found != *users).then(|| {
        format!(
            "kernels/{folder} was written for {users:?}, but Cargo.lock has {found:?}: compare what these use of {original} \
             with kernels/{folder}/src, build with the default features, then change the versions here and in its README"
        )
    })
}

#[test]
fn stand_ins_are_for_the_cubecl_that_is_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("the workspace's Cargo.lock");
    for stand_in in &STAND_INS {
        assert_eq!(trouble(stand_in, &lock), None);
    }
}

#[test]
fn other_versions_are_noticed() {
    let lock = |version: &str, source: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"cubecl-environment\"\nversion = \"{version}\"\n\
             dependencies = [\n \"serde\",\n \"turso\",\n]\n\n\
             [[package]]\nname = \"turso\"\nversion = \"0.8.3\"\n{source}"
        )
    };
    let turso = &STAND_INS[1];
    assert_eq!(trouble(turso, &lock("0.11.3", "")), None);
    let newer = trouble(turso, &lock("0.12.0", "")).expect("noticed");
    assert!(newer.contains("0.12.0"), "{newer}");
    let original = trouble(turso, &lock("0.11.3", "source = \"registry\"\n")).expect("noticed");
    assert!(original.contains("itself is built"), "{original}");
}
