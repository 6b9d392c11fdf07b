package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// The binaries of nodes do not have the large clients of sinks, which are in `colonnade ship`.
func TestNodesLinkNoHeavySinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/entry", module+"/cmd/colo").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{module + "/analytics/sinks/heavy", "github.com/twmb/franz-go", "github.com/jackc/pgx", "github.com/ClickHouse", "github.com/minio", "github.com/parquet-go"} {
			if path == heavy || strings.HasPrefix(path, heavy+"/") {
				t.Errorf("entry or colo has %s: open that sink in analytics/sinks/heavy only", path)
			}
		}
	}
}
