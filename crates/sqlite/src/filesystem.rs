//! Network filesystems, on which neither locks nor syncs need hold what they promise.

use std::path::Path;

use amends_store::{Error, Kind};

/// Types of filesystem that other machines may write to at the same time.
const NETWORK: [&str; 12] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "lustre",
    "beegfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
];

/// Refuses a path on a network filesystem, where the system tells (Linux).
///
/// # Errors
/// [`Kind::Refused`], naming the filesystem.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(folder), Ok(mounts)) = (folder.canonicalize(), std::fs::read_to_string("/proc/self/mounts"))
    else {
        return Ok(());
    };
    match filesystem_of(&folder, &mounts) {
        Some(kind) if NETWORK.contains(&kind) => {
            let message = format!(
                "{} is on a network filesystem ({kind}), where SQLite can lose or damage data; put it on a local disk, \
                 or use a database server as the store",
                path.display()
            );
            Err(Error::new(Kind::Refused, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// The type of the filesystem that a folder lies on: the longest mount point wins, and the last of equals covers the others.
fn filesystem_of<'m>(folder: &Path, mounts: &'m str) -> Option<&'m str> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let point = fields.next()?.replace("\\040", " ");
            folder.starts_with(&point).then_some((point.len(), fields.next()?))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "/dev/vda / ext4 rw 0 0\nserver:/x /mnt/share nfs4 rw 0 0\n//srv/y /mnt/with\\040space cifs rw 0 0\n\
                          tmpfs /mnt/share/local tmpfs rw 0 0\n";

    #[test]
    fn the_longest_mount_point_decides() {
        for (folder, kind) in [
            ("/home/u", "ext4"),
            ("/mnt/share/a/b", "nfs4"),
            ("/mnt/share/local/a", "tmpfs"),
            ("/mnt/sharelike", "ext4"),
            ("/mnt/with space/a", "cifs"),
        ] {
            assert_eq!(filesystem_of(Path::new(folder), MOUNTS), Some(kind), "{folder}");
        }
    }

    #[test]
    fn a_local_folder_is_not_refused() {
        let folder = tempfile::tempdir().unwrap();
        check(&folder.path().join("amends.db")).unwrap();
    }
}
