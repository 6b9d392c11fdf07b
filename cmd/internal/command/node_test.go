package command_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/node"
)

// Nodes share connections unless the flag says otherwise.
func TestMultiplex(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "fleet.key")
	if err := os.WriteFile(keys, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(noLinks bool, flags ...string) {
		t.Helper()
		var set command.NodeFlags
		var config node.Config
		program := &cli.Command{Name: "program", Flags: set.Flags(":0", ":0"), Action: func(context.Context, *cli.Command) (err error) {
			config, err = set.Config()
			return err
		}}
		if err := command.Run(t.Context(), program, append([]string{"program", "-node", "n", "-key-file", keys}, flags...)); err != nil || config.NoLinks != noLinks {
			t.Errorf("%q: NoLinks is %v, %v", flags, config.NoLinks, err)
		}
	}
	f(false)
	f(false, "-multiplex")
	f(true, "-multiplex=false")
}
