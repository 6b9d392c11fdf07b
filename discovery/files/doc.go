// Package files fills the table from documents in files: one file, or those of a directory. It is for one process; the nodes
// of a fleet take their documents from etcd.
//
// # One change
//
// All files are read together, and all of their documents come into force as one table, or none does. If any document is
// bad, a file cannot be read, or nothing is there, the documents in force stay, the table has the rejections with file and line, and the
// log has one line. A file without any text, and a directory without a file of documents, count as accidents, since a write that was cut off
// leaves the one, and a volume that is not mounted the other. A file with a comment alone says that there are no documents.
//
// Files seldom change in one step: an editor truncates and writes, cp copies one after the other. So a [Watcher] that has seen a
// change waits until nothing has changed for a tenth of a second, but no longer than half a second. Then it lists the files, reads
// them, and lists them again: if the lists differ, it has read a mixture, and reads again. A change that takes longer than half a
// second is made as one by the replacement of a symbolic link, as Kubernetes does (..data).
//
// # Finding changes
//
// Whether anything has changed is decided by listings: which files there are (device and inode), their sizes, modes and
// times. The notifications of the file system (fsnotify) only say when to look, so that nothing depends on their order,
// on those that are lost, or on the directories that can be watched. On NFS, and beyond the limits of inotify, there are
// no notifications; the watcher then lists the files every Config.Interval. A notification about a file of documents
// makes the watcher read even if the listing is as before, and files that were changed shortly before they were read are
// read once more: the times of files are not exact everywhere.
//
// Anything but a regular file is refused before it is opened: a named pipe would block. Each file has at most
// [document.MaxFile] bytes.
//
// # Files with API keys
//
// A file with documents of API keys (their hashes) must not be open to other users. It is accepted if
//
//   - only its owner can read and write it (0600, 0400); or
//   - root owns it, and beside root only its group can read it (0640, 0440).
//
// A [Watcher] also refuses such a file of another user than root and the user of the process, who could read and change it.
//
// PostgreSQL has the same rules for its private key. The first line is for people on shared machines, where the group of
// a person's file is often that of all people (staff, users). The second one is for files that the system gives to a
// service: root:colonnade 0640, or a Secret in Kubernetes. There root owns the files, and the volume is read-only, so chmod
// does not help; what helps is defaultMode: 0400, and fsGroup if the process is not root (then the file is 0440, with that group).
// The usual mode of Secrets, 0644, is refused, also where the volume is read-only: the directories of Nix are that as well,
// and every user of the machine reads them.
//
// # Documents of the process
//
// The process adds documents of its own by [Watcher.SetOwn]: its registration as a colo server, and the engines that it was given
// by URL. A document in a file that has the same key wins, and so does one that claims the same URL or alias under another key.
// Documents of the kinds servers and entries are refused in files: nodes register themselves.
package files
