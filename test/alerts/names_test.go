package alerts_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v2"

	"colonnade/reasons"
)

// selector is a metric that a query names, with the label matchers beside it.
type selector struct {
	metric   string
	matchers [][3]string // label, operator, value
}

// parsed is what a query names.
type parsed struct {
	selectors []selector
	grouping  []string // labels in by (…), without (…) and on (…)
}

var (
	token     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[a-zA-Z_:][\w:]*|\d[\w.]*|=~|!~|!=|==|<=|>=|\[[^\]]*\]|\S`)
	groupings = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators = []string{"and", "or", "unless", "bool", "offset"}
)

// parse finds the metrics and labels in a query. It knows as much of PromQL as the queries here use.
func parse(query string) (p parsed) {
	tokens := token.FindAllString(query, -1)
	at := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	for i := 0; i < len(tokens); i++ {
		word := tokens[i]
		switch {
		case !regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(word), slices.Contains(operators, word):
		case slices.Contains(groupings, word):
			for i += 2; i < len(tokens) && tokens[i] != ")"; i++ { // (a, b)
				if tokens[i] != "," {
					p.grouping = append(p.grouping, tokens[i])
				}
			}
		case at(i+1) == "(", slices.Contains(groupings, at(i+1)): // a function or an aggregation
		default:
			s := selector{metric: word}
			if at(i+1) == "{" {
				for i += 2; i+2 < len(tokens) && tokens[i] != "}"; i++ {
					if tokens[i] != "," {
						s.matchers = append(s.matchers, [3]string{tokens[i], tokens[i+1], strings.Trim(tokens[i+2], `"`)})
						i += 2
					}
				}
			}
			p.selectors = append(p.selectors, s)
		}
	}
	return p
}

func TestParse(t *testing.T) {
	p := parse(`sum by (le, pool) (rate(a_bucket{x=~"p|q",y!="z"}[5m])) > 0.5 and on () max without (s) (b{s="1"}) - time() or c > bool 2 * 7`)
	var names []string
	for _, s := range p.selectors {
		names = append(names, s.metric)
	}
	if got := strings.Join(names, " "); got != "a_bucket b c" {
		t.Errorf("metrics %s", got)
	}
	if got := strings.Join(p.grouping, " "); got != "le pool s" {
		t.Errorf("grouping %s", got)
	}
	if m := p.selectors[0].matchers; len(m) != 2 || m[0] != [3]string{"x", "=~", "p|q"} || m[1] != [3]string{"y", "!=", "z"} {
		t.Errorf("matchers %v", m)
	}
}

// vocabulary has the metrics that nodes have exported, with the values of their labels.
type vocabulary map[string]map[string]map[string]bool

func vocabularyOf(exports ...*export) vocabulary {
	v := vocabulary{}
	label := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	for _, e := range exports {
		for series := range e.values {
			name := metricOf(series)
			if v[name] == nil {
				v[name] = map[string]map[string]bool{}
			}
			for _, l := range label.FindAllStringSubmatch(series, -1) {
				if v[name][l[1]] == nil {
					v[name][l[1]] = map[string]bool{}
				}
				v[name][l[1]][l[2]] = true
			}
		}
	}
	return v
}

// check reports what a query names and no node exports.
func (v vocabulary) check(t *testing.T, where, query string) {
	t.Helper()
	p := parse(query)
	labels := map[string]bool{}
	for _, s := range p.selectors {
		if v[s.metric] == nil {
			t.Errorf("%s: no node exports %s", where, s.metric)
			continue
		}
		for label := range v[s.metric] {
			labels[label] = true
		}
		for _, m := range s.matchers {
			v.checkMatcher(t, where, s.metric, m)
		}
	}
	for _, label := range p.grouping {
		if !labels[label] {
			t.Errorf("%s: no metric of the query has the label %s", where, label)
		}
	}
}

func (v vocabulary) checkMatcher(t *testing.T, where, metric string, m [3]string) {
	t.Helper()
	label, operator, value := m[0], m[1], m[2]
	if label == "role" { // of a process that is an entry and a colo server
		return
	}
	known := v[metric][label]
	if known == nil {
		t.Errorf("%s: %s has no label %s", where, metric, label)
	}
	if strings.HasPrefix(operator, "!") || strings.HasPrefix(value, "$") {
		return
	}
	for one := range strings.SplitSeq(value, "|") {
		reason := label == "reason" && slices.ContainsFunc(reasons.All(), func(i reasons.Info) bool { return i.Reason == one })
		if !known[one] && !reason && !(label == "job" && one == "colonnade") {
			t.Errorf("%s: %s has no %s=%q", where, metric, label, one)
		}
	}
}

// rule is an alert of the file.
type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	data, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// Each alert fires in a test of this package, and the page says what it means and what to do.
func TestEveryAlertIsTestedAndExplained(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(data)
	}
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rules(t) {
		seen[r.Alert] = true
		if !strings.Contains(tests.String(), `"`+r.Alert+`"`) {
			t.Errorf("no test shows that %s fires", r.Alert)
		}
		if !strings.Contains(string(page), "\n| `"+r.Alert+"` | ") {
			t.Errorf("docs/troubleshooting.md does not explain %s", r.Alert)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["runbook"] != "docs/troubleshooting.md#alerts" {
			t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
		}
	}
	explained := regexp.MustCompile("(?m)^\\| `(Colonnade\\w+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, e := range explained {
		if !seen[e[1]] {
			t.Errorf("docs/troubleshooting.md explains %s, which is no alert; alerts: %v", e[1], slices.Sorted(maps.Keys(seen)))
		}
	}
}

// legend finds the labels in a legend.
var legend = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// has reports whether any metric of a query has a label.
func (v vocabulary) has(query, label string) bool {
	return slices.ContainsFunc(parse(query).selectors, func(s selector) bool { return v[s.metric][label] != nil })
}
