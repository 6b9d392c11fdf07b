package pages

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"colonnade/internal/docpage"
	"colonnade/internal/testkit"
)

// option is a flag as a program's help describes it: its names and its usage.
type option struct{ names, usage string }

var (
	optionHead = regexp.MustCompile(`(?m)^   --(.*)\n((?:      .*\n)+)`)
	variable   = regexp.MustCompile(` \[\$(COLONNADE_[A-Z_]+)\]$`)
	byDefault  = regexp.MustCompile(` \(default: (.*)\)$`)
)

// help returns what a program prints with -h.
func help(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(testkit.Binary(t, program), append(args, "-h")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v -h: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func optionsOf(help string) []option {
	var all []option
	for _, m := range optionHead.FindAllStringSubmatch(help, -1) {
		all = append(all, option{m[1], strings.Join(strings.Fields(m[2]), " ")})
	}
	return all
}

// split separates the meaning of a flag from its default.
func (o option) split() (meaning, fallback string) {
	meaning = variable.ReplaceAllString(o.usage, "")
	if required, ok := strings.CutSuffix(meaning, " (required)"); ok {
		return required, "required"
	}
	m := byDefault.FindStringSubmatch(meaning)
	host, _ := os.Hostname()
	switch {
	case m == nil:
		return meaning, "none"
	case m[1] == host || m[1] == strconv.Quote(host):
		fallback = "name of the machine"
	case strings.Contains(m[1], " "):
		fallback = m[1]
	default:
		fallback = "`" + strings.Trim(m[1], `"`) + "`"
	}
	return byDefault.ReplaceAllString(meaning, ""), fallback
}

// flag returns the name of the flag as pages have it.
func (o option) flag() string {
	name, _, _ := strings.Cut(o.names, " [") // "engine URL [ --engine URL ]" may be repeated
	return "`-" + name + "`"
}

// find returns the option of the same name.
func (o option) find(all []option) (option, bool) {
	i := slices.IndexFunc(all, func(other option) bool { return other.names == o.names })
	if i < 0 {
		return option{}, false
	}
	return all[i], true
}

// The tables of flags of serve and register are those of their help.
func TestFlagsOnCommandPages(t *testing.T) {
	for _, command := range []string{"serve", "register"} {
		docpage.Check(t, "docs/"+command+".md", map[string]string{"flags of " + command: flagsOf(t, command)})
	}
}

// flagsOf returns the table of the flags of a command.
func flagsOf(t *testing.T, command string) string {
	t.Helper()
	options := optionsOf(help(t, "colonnade", command))
	if len(options) < 12 {
		t.Fatalf("found %d flags of %s: this test must follow the form of help", len(options), command)
	}
	var rows [][]string
	for _, o := range options {
		meaning, fallback := o.split()
		rows = append(rows, []string{o.flag(), fallback, meaning})
	}
	return docpage.Table([]string{"flag", "default", "meaning"}, rows)
}

// The tables of flags are those of the programs' own help.
func TestFlagsOnNodesPage(t *testing.T) {
	entry, colo := optionsOf(help(t, "entry")), optionsOf(help(t, "colo"))
	if len(entry) < 15 || len(colo) < 12 {
		t.Fatalf("found %d flags of entry and %d of colo: this test must follow the form of help", len(entry), len(colo))
	}
	var shared, ofEntry, ofColo [][]string
	for _, o := range entry {
		meaning, fallback := o.split()
		other, both := o.find(colo)
		if !both {
			ofEntry = append(ofEntry, []string{o.flag(), fallback, meaning})
			continue
		}
		if _, there := other.split(); there != fallback {
			fallback += "; " + there + " of a colo server"
		}
		shared = append(shared, []string{o.flag(), fallback, meaning})
	}
	for _, o := range colo {
		if _, both := o.find(entry); !both {
			meaning, fallback := o.split()
			ofColo = append(ofColo, []string{o.flag(), fallback, meaning})
		}
	}
	titles := []string{"flag", "default", "meaning"}
	docpage.Check(t, "docs/nodes.md", map[string]string{
		"flags":          docpage.Table(titles, shared),
		"flags of entry": docpage.Table(titles, ofEntry),
		"flags of colo":  docpage.Table(titles, ofColo),
	})
}
