package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
)

// sqlOfPage returns the queries of docs/events.md, and the view by which DuckDB has the table.
func sqlOfPage(t *testing.T) (queries []string, view string) {
	t.Helper()
	for _, b := range blocks(t, "docs/events.md") {
		switch {
		case b.language != "sql":
		case strings.HasPrefix(b.text, "CREATE VIEW"):
			view = b.text
		default:
			queries = append(queries, b.text)
		}
	}
	if len(queries) != len(wantRows()) || view == "" {
		t.Fatalf("the page has %d queries, want %d, and the view %q", len(queries), len(wantRows()), view)
	}
	return queries, view
}

// sampleEvents are the events of the page, and some others. Two of them are delivered twice.
func sampleEvents(t *testing.T) (lines []string) {
	t.Helper()
	for _, b := range blocks(t, "docs/events.md") {
		if b.language == "json" {
			lines = append(lines, strings.TrimSpace(b.text))
		}
	}
	add := func(n int, e analytics.Event) {
		e.EventID, e.RequestID, e.Node = fmt.Sprintf("%032x", n), fmt.Sprintf("%032x", n+100), "edge-1"
		e.Phase = analytics.PhaseEnd
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i, account := range []string{"acme", "beta", "beta"} {
		add(i, analytics.Event{Kind: analytics.KindRequest, Time: at, Account: account, Model: "m", Status: 429, Code: "out_of_capacity", Reason: "queue_full", Outcome: analytics.OutcomeRefused})
	}
	add(3, analytics.Event{Kind: analytics.KindRequest, Time: at, Status: 401, Code: "invalid_api_key", Outcome: analytics.OutcomeRefused})
	add(4, analytics.Event{Kind: analytics.KindRequest, Time: at, Account: "beta", Model: "m", Status: 200, Outcome: analytics.OutcomeCompleted, Streamed: true, TimeToFirstToken: analytics.Milliseconds(100 * time.Millisecond)})
	add(5, analytics.Event{Kind: analytics.KindRequest, Time: at, Account: "beta", Model: "m", Status: 200, Outcome: analytics.OutcomeCompleted, Streamed: true, TimeToFirstToken: analytics.Milliseconds(200 * time.Millisecond)})
	// At the end of the day in UTC, whatever the zone of the session is.
	late := time.Date(2026, 11, 23, 23, 59, 59, 0, time.UTC)
	add(6, analytics.Event{Kind: analytics.KindInference, Time: late, Account: "acme", Outcome: analytics.OutcomeClientGone, PromptTokens: 8, TokensEstimated: 36, Cost: 0.5, CostUnit: "neurons"})
	add(7, analytics.Event{Kind: analytics.KindInference, Time: late.Add(time.Hour), Account: "beta", Outcome: analytics.OutcomeCompleted, CompletionTokens: 5})
	add(7, analytics.Event{Kind: analytics.KindInference, Time: late.Add(2 * time.Hour), Account: "beta", Outcome: analytics.OutcomeCrashed})
	add(8, analytics.Event{Kind: analytics.KindInference, Time: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Account: "beta"})
	return append(lines, lines[2], lines[9])
}

// wantRows are the rows of each query over the sample events; columns are separated by bars, and null is empty.
func wantRows() [][]string {
	return [][]string{
		{"2026-11-23|acme|neurons|2|20|100|0.5816", "2026-11-24|beta||1|0|5|0"},
		{"queue_full|429|3|2", "invalid_api_key|401|1|0"},
		{"llama-3.1-8b-instruct|1|475.897|475.897", "m|2|150|199"},
		{
			"2026-11-23 07:34:13.373871|request|entry-1||completed|||475.897|1105.418",
			"2026-11-23 07:34:13.396642|forward|ams-1||refused|busy|||8.969",
			"2026-11-23 07:34:13.487674|inference|iad-1|gpu-7|completed|||301.692|931.119",
		},
	}
}

// duckDB prints the rows of queries over Parquet files, each query as a list in JSON. Its arguments: the lines of events, a directory for
// Parquet files in folders by date and hour, and the SQL in JSON.
const duckDB = `
import datetime, json, sys, duckdb
lines, folder, sql = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
db = duckdb.connect()
db.execute("SET TimeZone = 'America/New_York'")
db.execute(f"CREATE TABLE raw AS SELECT * FROM read_json('{lines}', format = 'newline_delimited', columns = {sql['columns']})")
db.execute(f"""COPY (SELECT *, strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d') AS date, strftime(time AT TIME ZONE 'UTC', '%H') AS hour FROM raw)
  TO '{folder}' (FORMAT parquet, PARTITION_BY (date, hour))""")
db.execute(sql['view'].replace('s3://events', folder))
def text(v):
    if v is None: return ''
    if isinstance(v, datetime.datetime): return v.astimezone(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M:%S.%f')
    if isinstance(v, float): return format(round(v, 4), '.15g')
    return str(v)
print(json.dumps([['|'.join(map(text, row)) for row in db.execute(q).fetchall()] for q in sql['queries']]))
`

// TestSQLOnParquet runs the queries of the page over Parquet files that have the columns of the sink.
func TestSQLOnParquet(t *testing.T) {
	python := pythonWithDuckDB(t)
	queries, view := sqlOfPage(t)
	dir := t.TempDir()
	lines := filepath.Join(dir, "events.jsonl")
	if err := os.WriteFile(lines, []byte(strings.Join(sampleEvents(t), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	sql, err := json.Marshal(map[string]any{"queries": queries, "view": view, "columns": duckDBColumns(t)})
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, "-c", duckDB, lines, filepath.Join(dir, "parquet"), string(sql))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var got [][]string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkRows(t, queries, got)
}

func checkRows(t *testing.T, queries []string, got [][]string) {
	t.Helper()
	for i, want := range wantRows() {
		if g, w := strings.Join(got[i], "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("%s\ngot\n%s\nwant\n%s", queries[i], g, w)
		}
	}
}

// pythonWithDuckDB returns a Python that has DuckDB: .ci/run installs one in var/duckdb.
func pythonWithDuckDB(t *testing.T) string {
	t.Helper()
	for _, python := range []string{filepath.Join(root, "var", "duckdb", "bin", "python"), "python3"} {
		if exec.Command(python, "-c", "import duckdb, pytz").Run() == nil {
			return python
		}
	}
	t.Skip("needs DuckDB: python3 -m venv var/duckdb && var/duckdb/bin/pip install duckdb pytz")
	return ""
}

// duckDBColumns returns the columns of the Parquet files with their types, as DuckDB writes a struct.
func duckDBColumns(t *testing.T) string {
	t.Helper()
	schema, err := os.ReadFile(filepath.Join(root, "analytics", "testdata", "schema.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "true": "BOOLEAN", "time": "TIMESTAMPTZ", "list of texts": "VARCHAR[]"}
	var columns []string
	for line := range strings.Lines(string(schema)) {
		field := strings.Split(strings.TrimSpace(line), "\t")
		columns = append(columns, fmt.Sprintf("'%s': '%s'", field[1], types[field[2]]))
	}
	return "{" + strings.Join(columns, ", ") + "}"
}
