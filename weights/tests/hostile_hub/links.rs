//! Links of every kind in the cache, which lead to the user's own files.

use std::os::unix::fs::symlink;

use super::*;

/// Makes a cache in which `prepare` has put a link, pulls into it and looks after the user's
/// files.
fn pulled_over(prepare: impl Fn(&Home)) -> (Home, Result<Pulled, HubError>) {
    let hub = Hostile::start(honest);
    let home = Home::new();
    prepare(&home);
    let result = home.pull(&hub, FILE);
    home.is_unharmed();
    (home, result)
}

fn is_whole(path: &Path) {
    assert_eq!(fs::read(path).unwrap(), content());
}

#[test]
fn a_pointer_is_replaced_and_its_target_left_alone() {
    let pointer = format!("snapshots/{COMMIT}/weights.safetensors");
    let prepare = |home: &Home| symlink(home.thesis(), home.cached(&pointer)).unwrap();
    let (home, pulled) = pulled_over(prepare);
    is_whole(&pulled.unwrap().path);
    let link = fs::read_link(home.cached(&pointer)).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(sha256()));

    // Without the network nothing is touched at all, and it is not taken for what it is not.
    let home = Home::new();
    prepare(&home);
    let mut settings = home.settings("http://127.0.0.1:1");
    settings.offline = true;
    let error = pull_with(&settings, FILE, COMMIT).unwrap_err();
    message(&error);
    home.is_unharmed();
    assert_eq!(fs::read_link(home.cached(&pointer)).unwrap(), home.thesis());
}

#[test]
fn a_damaged_file_is_kept_without_the_network() {
    let (home, pulled) = pulled_over(|_| {});
    let path = pulled.unwrap().path;
    fs::write(&path, "rotten").unwrap();
    let mut settings = home.settings("http://127.0.0.1:1");
    settings.offline = true;
    let error = pull_with(&settings, FILE, COMMIT).unwrap_err();
    assert!(matches!(error, HubError::Damaged { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "rotten");
}

#[test]
fn a_part_or_a_stored_file_that_is_a_link_is_replaced() {
    let part = format!("blobs/{}.part", sha256());
    let blob = format!("blobs/{}", sha256());
    for name in [&part, &blob] {
        let (_home, pulled) =
            pulled_over(|home| symlink(home.thesis(), home.cached(name)).unwrap());
        is_whole(&pulled.unwrap().path);
        let (_home, pulled) =
            pulled_over(|home| fs::hard_link(home.thesis(), home.cached(name)).unwrap());
        is_whole(&pulled.unwrap().path);
        // To a file that is not there yet.
        let (_home, pulled) = pulled_over(|home| {
            symlink(home.mine().join("new"), home.cached(name)).unwrap();
        });
        is_whole(&pulled.unwrap().path);
    }
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    for folder in [
        "blobs".to_string(),
        "snapshots".into(),
        format!("snapshots/{COMMIT}"),
        "refs".into(),
    ] {
        let (_home, pulled) =
            pulled_over(|home| symlink(home.mine(), home.cached(&folder)).unwrap());
        let error = pulled.unwrap_err();
        assert!(matches!(error, HubError::NoFolder { .. }), "{error:?}");
        message(&error);
    }
    let (_home, pulled) = pulled_over(|home| {
        fs::create_dir_all(home.cache()).unwrap();
        symlink(home.mine(), home.cache().join("models--me--model")).unwrap();
    });
    let error = pulled.unwrap_err();
    assert!(matches!(error, HubError::NoFolder { .. }), "{error:?}");
}

#[test]
fn a_noted_branch_that_is_a_link_is_replaced() {
    let (home, pulled) =
        pulled_over(|home| symlink(home.thesis(), home.cached("refs/main")).unwrap());
    pulled.unwrap();
    assert_eq!(
        fs::read_to_string(home.cached("refs/main")).unwrap(),
        COMMIT
    );
}

#[test]
fn pipes_in_the_cache_do_not_block() {
    let pipe = |path: PathBuf| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    for name in [
        format!("blobs/{}.part", sha256()),
        format!("blobs/{}", sha256()),
    ] {
        let (_home, pulled) = pulled_over(|home| pipe(home.cached(&name)));
        is_whole(&pulled.unwrap().path);
    }
    let pointer = format!("snapshots/{COMMIT}/weights.safetensors");
    let hub = Hostile::start(honest);
    let home = Home::new();
    pipe(home.cached(&pointer));
    let pulled = pull_with(&home.settings(&hub.endpoint), FILE, COMMIT);
    is_whole(&pulled.unwrap().path);
}
