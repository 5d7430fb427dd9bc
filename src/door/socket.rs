//! A Unix socket that is its owner's alone.

use super::DoorInvalid;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};

/// Begins to listen there.
///
/// # Errors
/// [`DoorInvalid::SocketTaken`], [`DoorInvalid::Listen`].
pub(super) async fn bind(path: &Path) -> Result<UnixListener, DoorInvalid> {
    make_room(path).await?;
    bind_private(path).map_err(|_| DoorInvalid::Listen)
}

/// Removes a socket nobody listens at any more; anything else stays, and stays untouched.
async fn make_room(path: &Path) -> Result<(), DoorInvalid> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return Err(DoorInvalid::Listen),
    };
    if !found.file_type().is_socket() {
        return Err(DoorInvalid::SocketTaken);
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|_| DoorInvalid::Listen)
        }
        Ok(_) | Err(_) => Err(DoorInvalid::SocketTaken),
    }
}

/// Makes the socket in a folder of its owner alone, and moves it to its place when it is 0600: at no
/// time can anybody else connect.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let beside = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let alone = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix(".door-").permissions(alone).tempdir_in(beside)?;
    let first = folder.path().join("s");
    let listener = UnixListener::bind(&first)?;
    std::fs::set_permissions(&first, Permissions::from_mode(0o600))?;
    std::fs::rename(&first, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_its_owners_alone_and_takes_the_place_of_one_nobody_listens_at() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("door.sock");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let first = bind(&path).await.expect("nothing is there");
            let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let beside = std::fs::read_dir(folder.path()).expect("readable").count();
            assert_eq!(beside, 1, "the folder it was made in is gone");
            let second = bind(&path).await.err();
            assert_eq!(second, Some(DoorInvalid::SocketTaken), "somebody listens");
            drop(first);
            bind(&path).await.expect("nobody listens any more");
            let file = folder.path().join("file");
            std::fs::write(&file, "mine").expect("writable");
            let taken = bind(&file).await.err();
            assert_eq!(taken, Some(DoorInvalid::SocketTaken));
            assert_eq!(std::fs::read(&file).expect("it is still there"), b"mine");
        });
    }
}
