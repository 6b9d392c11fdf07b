package proctest

import (
	"os"
	"path/filepath"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// startServe writes the documents to a file, and starts the process that serves them.
func (f *Fleet) startServe() {
	f.T.Helper()
	f.Path = filepath.Join(f.dir, "documents.yaml")
	f.Write(f.documents() + f.config.Documents)
	n := &Node{Name: "edge-1", Dir: filepath.Join(f.dir, "edge-1"), fleet: f, Address: etcdtest.FreeAddress(f.T), Admin: etcdtest.FreeAddress(f.T)}
	n.run = []string{testkit.Binary(f.T, "colonnade"), "serve", "-config", f.Path, "-node", n.Name, "-listen", n.Address, "-admin", n.Admin,
		"-data-dir", n.Dir, "-drain", f.config.Drain.String(), "-open"}
	n.Start()
	f.Entries = append(f.Entries, n)
}

// Write replaces the file with the documents, which nothing checks before. A reader never sees a part of them.
func (f *Fleet) Write(documents string) {
	f.T.Helper()
	next := f.Path + ".next"
	if err := os.WriteFile(next, []byte(documents), 0o600); err != nil {
		f.T.Fatal(err)
	}
	if err := os.Rename(next, f.Path); err != nil {
		f.T.Fatal(err)
	}
}
