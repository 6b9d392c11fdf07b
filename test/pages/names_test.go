package pages

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// eventsTable is the table of the sinks that are databases; its name looks like that of a metric.
const eventsTable = "colonnade_events"

// history has pages that name what is no more.
var history = []string{"CHANGELOG.md"}

var (
	span      = regexp.MustCompile("`([^`\n]+)`")
	flagName  = regexp.MustCompile(`^-[a-z][a-z-]+$|^-[fn]$`)
	metric    = regexp.MustCompile(`^(?:colonnade_[a-z_]+|inference_[a-z_]+_(?:total|seconds|requests|length))$`)
	aVariable = regexp.MustCompile(`^COLONNADE_[A-Z_]+$`)
)

// spans returns the inline code of a page, but for pages about the past or about tests.
func spans(t *testing.T, page string) []string {
	t.Helper()
	if slices.Contains(history, page) || strings.HasPrefix(page, "test/") {
		return nil
	}
	var all []string
	for _, m := range span.FindAllStringSubmatch(prose(t, page), -1) {
		if text := strings.TrimSpace(m[1]); text != "" {
			all = append(all, text)
		}
	}
	return all
}

var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	return fenced.ReplaceAllString(read(t, page), "")
}

// programs has the help of each program, and of each of its commands, by its words: "colonnade config apply".
type programs map[string]string

func (p programs) add(t *testing.T, words ...string) {
	t.Helper()
	text := help(t, words[0], words[1:]...)
	p[strings.Join(words, " ")] = text
	_, list, _ := strings.Cut(text, "COMMANDS:\n")
	for line := range strings.Lines(list) {
		if line == "\n" {
			break
		}
		p.add(t, append(slices.Clone(words), strings.Fields(line)[0])...)
	}
}

// flags returns the flags and the variables of all programs.
func (p programs) flags() (flags, variables map[string]bool) {
	flags, variables = map[string]bool{}, map[string]bool{}
	for _, text := range p {
		for _, o := range optionsOf(text) {
			for name := range strings.SplitSeq(o.names, ", ") {
				flags["-"+strings.TrimLeft(strings.Fields(name)[0], "-")] = true
			}
			if m := variable.FindStringSubmatch(o.usage); m != nil {
				variables[m[1]] = true
			}
		}
	}
	return flags, variables
}

// Pages name commands, flags, variables, targets of make and metrics that exist.
func TestNamesExist(t *testing.T) {
	all := programs{}
	for _, name := range []string{"entry", "colo", "colonnade"} {
		all.add(t, name)
	}
	flags, variables := all.flags()
	for _, name := range []string{"-url", "-interval", "-library", "-h"} { // of colonnade-bench, of colonnade-gpus, and of all
		flags[name] = true
	}
	variables["COLONNADE_USER"] = true // no flag has it: it is read with each change of documents
	metrics, makefile := read(t, "docs/metrics.md"), read(t, "Makefile")
	for _, page := range pages(t) {
		for _, text := range spans(t, page) {
			words := strings.Fields(strings.TrimPrefix(text, "bin/"))
			if len(words) == 0 {
				continue
			}
			switch first := words[0]; {
			case first == "colonnade" && len(words) > 1:
				if command := all.find(words); command == "" {
					t.Errorf("%s: `%s`: there is no such command", page, text)
				}
			case flagName.MatchString(first):
				if !flags[first] {
					t.Errorf("%s: `%s`: no program has the flag %s", page, text, first)
				}
			case aVariable.MatchString(text):
				if !variables[text] && text != "COLONNADE_SOAK" && text != "COLONNADE_SEED" && text != "COLONNADE_DIRECT" && text != "COLONNADE_SERVE" {
					t.Errorf("%s: `%s`: no program reads it", page, text)
				}
			case first == "make" && len(words) == 2:
				if !strings.Contains(makefile, "\n"+words[1]+":") {
					t.Errorf("%s: `%s`: the Makefile has no such target", page, text)
				}
			case metric.MatchString(first):
				if !strings.Contains(metrics, "`"+first+"`") && first != eventsTable {
					t.Errorf("%s: `%s`: docs/metrics.md has no such metric", page, text)
				}
			}
		}
	}
}

// find returns the longest command that words begin with, and nothing if the first word after a command that only groups others
// is none of these.
func (p programs) find(words []string) string {
	command := words[0]
	for _, word := range words[1:] {
		longer := command + " " + word
		if _, ok := p[longer]; ok {
			command = longer
		} else if strings.Contains(p[command], "COMMANDS:\n") && unicode.IsLower(rune(word[0])) {
			return ""
		}
	}
	return command
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unsafe  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Links between pages lead to files and headings that exist.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s: the link %s leads to no heading of %s", page, m[1], target)
			}
		}
	}
}

// anchors returns the names of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, m := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		name := unsafe.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
