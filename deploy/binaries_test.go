package deploy_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/testkit"
	_ "colonnade/onebox" // imports what the binaries are made of, so that cached results become invalid with it
)

// flagsOf returns the flags of a command and their defaults, as its -h prints them.
func flagsOf(t *testing.T, command ...string) map[string]string {
	t.Helper()
	out, err := exec.Command(testkit.Binary(t, command[0]), append(command[1:], "-h")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v -h: %v\n%s", command, err, out)
	}
	if !strings.Contains(string(out), strings.Join(command, " ")) {
		t.Errorf("there is no command %q; its -h says:\n%s", strings.Join(command, " "), out)
	}
	flags := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-h, )?--([a-z][a-z-]*)[^\n]*(?:\n      [^ -][^\n]*)*`).FindAllStringSubmatch(string(out), -1) {
		help := strings.Join(strings.Fields(m[0]), " ")
		flags[m[1]] = ""
		if value := regexp.MustCompile(`\(default:? "?([^")]*)"?\)`).FindStringSubmatch(help); value != nil {
			flags[m[1]] = value[1]
		}
	}
	if len(flags) == 0 {
		t.Fatalf("%v -h shows no flags:\n%s", command, out)
	}
	return flags
}

// commandLine is a command line of one of the binaries.
type commandLine struct {
	command []string          // the binary's name, and of colonnade's commands theirs
	values  map[string]string // by flag
	rest    []string          // arguments
}

// parse parses a command line, and reports what the binary would refuse.
func parse(t *testing.T, where string, args []string) commandLine {
	t.Helper()
	c := commandLine{command: []string{filepath.Base(args[0])}, values: map[string]string{}}
	if !slices.Contains([]string{"entry", "colo", "colonnade"}, c.command[0]) {
		t.Fatalf("%s starts %s, which is none of the binaries", where, args[0])
	}
	args = args[1:]
	for c.command[0] == "colonnade" && len(args) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(args[0]) {
		c.command, args = append(c.command, args[0]), args[1:]
	}
	known := flagsOf(t, c.command...)
	for len(args) > 0 {
		if args[0] == "--" {
			c.rest = append(c.rest, args[1:]...)
			break
		}
		if !strings.HasPrefix(args[0], "-") {
			c.rest, args = append(c.rest, args[0]), args[1:]
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		if _, ok := known[name]; !ok && name != "help" && name != "h" {
			t.Errorf("%s: %s has no flag -%s; it has %v", where, strings.Join(c.command, " "), name, slices.Sorted(maps.Keys(known)))
		}
		if !given && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			value, args = args[0], args[1:]
		}
		c.values[name] = value
	}
	if len(c.rest) > 0 && c.command[0] != "colonnade" {
		t.Errorf("%s: %s takes no arguments, but has %q", where, c.command[0], c.rest)
	}
	return c
}

// checkEnvironment reports a variable that sets no flag of the command.
func checkEnvironment(t *testing.T, where, name string, known map[string]string) {
	t.Helper()
	setting, ours := strings.CutPrefix(name, "COLONNADE_")
	if !ours || strings.HasPrefix(name, fleet.CredentialVariablePrefix) {
		return
	}
	flag := strings.ReplaceAll(strings.ToLower(setting), "_", "-")
	if _, ok := known[flag]; !ok {
		t.Errorf("%s sets %s, but there is no flag -%s", where, name, flag)
	}
}

// outlives checks that the time limit for stopping a node is longer than its drain, and what else it waits for, with some time for its end.
func outlives(t *testing.T, where, stop string, parts ...string) {
	t.Helper()
	limit, err := time.ParseDuration(stop)
	if err != nil {
		t.Fatalf("%s: no time limit for stopping: %v", where, err)
	}
	d := time.Duration(0)
	for _, part := range parts {
		one, err := time.ParseDuration(part)
		if err != nil {
			t.Fatalf("%s: -drain: %v", where, err)
		}
		d += one
	}
	if limit < d+10*time.Second {
		t.Errorf("%s: the node is killed after %s, but may drain for %s and then writes its events", where, limit, d)
	}
}

// The commands in comments exist, with their flags.
func TestCommandsInComments(t *testing.T) {
	found := 0
	command := regexp.MustCompile("\\bcolonnade (config|keys|events|health|engine|register|serve|ship|status|up)\\b[^`\n]*")
	for _, pattern := range []string{"Dockerfile", "*.yaml", "*/*.yaml", "systemd/*"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			for line := range strings.Lines(text(t, name)) {
				_, comment, _ := strings.Cut(line, "#")
				if words := command.FindString(comment); words != "" {
					parse(t, name, strings.Fields(words))
					found++
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d commands found in comments: does this test still find them?", found)
	}
}
