package alerts_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	yaml "go.yaml.in/yaml/v2"
)

const rulesFile = "../../deploy/prometheus/colonnade.rules.yaml"

// promtool returns the path of the program, which Debian's package prometheus has.
func promtool(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool, which Debian's package prometheus has")
	}
	return path
}

// expectation is what a query answers at a moment.
type expectation struct {
	query   string
	at      time.Duration
	samples map[string]float64 // by labels
}

// firing expects that exactly these alerts fire.
func firing(at time.Duration, alerts ...string) expectation {
	e := expectation{query: `count by (alertname) (ALERTS{alertstate="firing"}) > bool 0`, at: at, samples: map[string]float64{}}
	for _, name := range alerts {
		e.samples[fmt.Sprintf("{alertname=%q}", name)] = 1
	}
	return e
}

// evaluate has promtool evaluate the rules and queries on samples.
func evaluate(t *testing.T, samples timeline, expected ...expectation) {
	t.Helper()
	program := promtool(t)
	type object = map[string]any
	var input, tests []object
	for _, series := range slices.Sorted(maps.Keys(samples)) {
		input = append(input, object{"series": series, "values": text(samples[series])})
	}
	for _, e := range expected {
		want := []object{}
		for labels, value := range e.samples {
			want = append(want, object{"labels": labels, "value": value})
		}
		tests = append(tests, object{"expr": e.query, "eval_time": e.at.String(), "exp_samples": want})
	}
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	file, err := yaml.Marshal(object{
		"rule_files": []string{rules}, "evaluation_interval": interval.String(),
		"tests": []object{{"interval": interval.String(), "input_series": input, "promql_expr_test": tests}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, strings.TrimSpace(string(out)))
	}
}

func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), promtool(t), "check", "rules", rulesFile).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
