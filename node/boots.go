package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"colonnade/internal/atomicfile"
)

// maxBoots bounds how many processes of its node a process remembers.
const maxBoots = 64

// rememberBoot adds the boot id of this process to the node's file of them, and returns those of earlier processes, which have ended:
// openRuntime locks the directory of the file. A node without a directory remembers none, and one whose disk is full serves nevertheless.
func (c *Config) rememberBoot(boot string) (ended []string) {
	path := c.file("boots")
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &ended)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Logger.Warn("cannot read which processes of this node have ended; engines of a killed one may be blocked for 10 s", "file", path, "error", err)
		ended = nil
	}
	ended = ended[max(0, len(ended)-maxBoots):]
	if err := atomicfile.Write(path, encode(append(ended[:len(ended):len(ended)], boot)), 0o600); err != nil {
		c.Logger.Warn("cannot write the boot id of this process; if it is killed, engines may be blocked for 10 s", "file", path, "error", err)
	}
	return ended
}
