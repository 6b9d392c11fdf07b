package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/docpage"
	"colonnade/internal/fleettest"
	"colonnade/openai"
)

// compatibilityFile has what the last run of TestClients with -update has found. TestClients compares it with what it finds, and
// docs/compatibility.md is made from it.
const compatibilityFile = "testdata/compatibility.json"

// clientRecord is what has been found about a client.
type clientRecord struct {
	Client   string       `json:"client"`
	Language string       `json:"language"`
	Version  string       `json:"version"`
	Paths    []pathRecord `json:"paths"`
}

type pathRecord struct {
	Path    string            `json:"path"`
	Engines map[string]string `json:"engines"` // by kind: how requests reach it
	Checks  []string          `json:"checks"`
	Differs []string          `json:"differs,omitempty"`
}

// anyKind stands for the kind of engine in the names of checks that do not depend on it.
const anyKind = "any"

// How requests reach an engine.
const (
	forwarded  = "forwarded"
	translated = "translated"
	answered   = "answered" // by the entry, without an engine
)

func readCompatibility(t *testing.T) (all []clientRecord) {
	t.Helper()
	text, err := os.ReadFile(compatibilityFile)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkClient compares what a client has shown with its record; with -update, it writes the record.
func checkClient(t *testing.T, p program, found clientRecord) {
	t.Helper()
	found.Client, found.Language, found.Version = p.client, p.language, p.version(t)
	all := readCompatibility(t)
	i := slices.IndexFunc(all, func(r clientRecord) bool { return r.Client == p.client && r.Language == p.language })
	if i >= 0 && same(t, all[i], found) {
		return
	}
	if !docpage.Updating() {
		t.Errorf("%s says otherwise; if this is right, write it with: go test -run TestClients -update\nfound: %s", compatibilityFile, encode(t, found))
		return
	}
	if i < 0 {
		all = append(all, found)
	} else {
		all[i] = found
	}
	slices.SortStableFunc(all, func(a, b clientRecord) int { return place(a) - place(b) })
	if err := os.WriteFile(compatibilityFile, append(encode(t, all), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, a, b clientRecord) bool { return bytes.Equal(encode(t, a), encode(t, b)) }

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func place(r clientRecord) int {
	return slices.IndexFunc(programs, func(p program) bool { return r.Client == p.client && r.Language == p.language })
}

// version returns the version of the client that install.sh installs.
func (p program) version(t *testing.T) string {
	t.Helper()
	file, pattern := "python/requirements.txt", `(?m)^`+regexp.QuoteMeta(p.client)+`==([^ ]+)`
	switch p.installed {
	case js:
		file, pattern = "js/package.json", `"`+regexp.QuoteMeta(p.client)+`": "([^"]+)"`
	case frameworks:
		file = "python/frameworks/requirements.txt"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s: %s has no version", file, p.client)
	}
	return string(found[1])
}

// recordOf makes a record of the names of checks, each of which is a path, a kind of engine and a feature, and of how requests have reached the
// engines, by kind and path. Every kind of a path must have passed the same checks.
func recordOf(t *testing.T, done, differs []string, how map[string]map[string]bool) (r clientRecord) {
	t.Helper()
	byPath := map[string]map[string][]string{}
	for _, name := range done {
		f := strings.SplitN(name, " ", 3)
		if len(f) != 3 {
			t.Fatalf("the check %q is not named by path, kind and feature", name)
		}
		if byPath[f[0]] == nil {
			byPath[f[0]] = map[string][]string{}
		}
		byPath[f[0]][f[1]] = append(byPath[f[0]][f[1]], f[2])
	}
	for _, path := range clientPaths {
		kinds := byPath[path]
		if kinds == nil {
			continue
		}
		p := pathRecord{Path: path, Engines: map[string]string{}}
		once := kinds[anyKind]
		delete(kinds, anyKind)
		for kind, checks := range kinds {
			slices.Sort(checks)
			if p.Checks != nil && !slices.Equal(p.Checks, checks) {
				t.Errorf("%s: not all kinds have passed the same checks: %q and %q", path, p.Checks, checks)
			}
			p.Checks, p.Engines[kind] = checks, reached(path, how[kind])
		}
		for _, check := range once {
			p.Checks = append(p.Checks, check+" (`"+firstKind(p.Engines)+"` alone)")
		}
		for _, text := range differs {
			if of, what, _ := strings.Cut(text, " "); of == path {
				p.Differs = append(p.Differs, what)
			}
		}
		r.Paths = append(r.Paths, p)
	}
	return r
}

// firstKind returns the kind of engine with which checks are made that do not depend on it: see withOne in js/lib.mjs.
func firstKind(engines map[string]string) string {
	for _, kind := range slices.Concat(textKinds, vectorKinds) {
		if engines[kind] != "" {
			return kind
		}
	}
	return anyKind
}

func reached(path string, targets map[string]bool) string {
	route, e := openai.ParseRoute([]byte(http.MethodPost), []byte(path))
	if e != nil {
		route, _ = openai.ParseRoute([]byte(http.MethodGet), []byte(path))
	}
	switch {
	case targets[path]:
		return forwarded
	case route.API.AboutModels():
		return answered
	}
	return translated
}

// The record has the versions that install.sh installs, and every client; the page is made from it.
func TestCompatibilityPage(t *testing.T) {
	all := readCompatibility(t)
	for _, p := range programs {
		i := slices.IndexFunc(all, func(r clientRecord) bool { return r.Client == p.client && r.Language == p.language })
		if i < 0 {
			t.Errorf("%s lacks %s (%s)", compatibilityFile, p.client, p.language)
		} else if v := p.version(t); all[i].Version != v {
			t.Errorf("%s: %s (%s) is %s, and %s is installed", compatibilityFile, p.client, p.language, all[i].Version, v)
		}
	}
	docpage.Check(t, "docs/compatibility.md", map[string]string{
		"paths": pathsTable(all), "others": othersTable(), "clients": clientsTable(all), "checks": checksTable(all),
	})
}

func pathsTable(all []clientRecord) string {
	kinds := append(slices.Clone(textKinds), "tei")
	how := map[string]map[string]string{}
	for _, r := range all {
		for _, p := range r.Paths {
			if how[p.Path] == nil {
				how[p.Path] = map[string]string{}
			}
			maps.Copy(how[p.Path], p.Engines)
		}
	}
	var rows [][]string
	for _, path := range clientPaths {
		row := []string{"`" + path + "`"}
		for _, kind := range kinds {
			row = append(row, how[path][kind])
		}
		rows = append(rows, row)
	}
	titles := []string{"path"}
	for _, kind := range kinds {
		titles = append(titles, "`"+kind+"`")
	}
	return docpage.Table(titles, rows)
}

// othersTable has the paths of engines that no client of the record uses, and which test/promises/paths asks for by plain HTTP.
func othersTable() string {
	kinds := append(slices.Clone(textKinds), "tei")
	titles, rows := []string{"path"}, [][]string{}
	for _, kind := range kinds {
		titles = append(titles, "`"+kind+"`")
	}
	for _, p := range openai.AllPaths() {
		if p.Passed == nil || slices.Contains(clientPaths, p.Path) {
			continue
		}
		row := []string{"`" + p.Path + "`"}
		for _, kind := range kinds {
			if slices.Contains(p.Passed, kind) && fleettest.Plays(kind, p.Path) {
				row = append(row, forwarded)
			} else {
				row = append(row, "")
			}
		}
		rows = append(rows, row)
	}
	return docpage.Table(titles, rows)
}

func clientsTable(all []clientRecord) string {
	var rows [][]string
	for _, r := range all {
		for i, p := range r.Paths {
			row := []string{"", "", "", "`" + p.Path + "`", kindsOf(p)}
			if i == 0 {
				row[0], row[1], row[2] = "`"+r.Client+"`", r.Language, r.Version
			}
			rows = append(rows, row)
		}
	}
	return docpage.Table([]string{"client", "language", "version", "path", "engines"}, rows)
}

func kindsOf(p pathRecord) string {
	var kinds []string
	for _, kind := range append(slices.Clone(textKinds), "tei") {
		if p.Engines[kind] != "" {
			kinds = append(kinds, "`"+kind+"`")
		}
	}
	return strings.Join(kinds, ", ")
}

func checksTable(all []clientRecord) string {
	var rows [][]string
	for _, r := range all {
		for _, p := range r.Paths {
			rows = append(rows, []string{fmt.Sprintf("`%s` (%s)", r.Client, r.Language), "`" + p.Path + "`", strings.Join(p.Checks, "; "), strings.Join(p.Differs, "; ")})
		}
	}
	return docpage.Table([]string{"client", "path", "checks", "what differs"}, rows)
}
