package entry

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/fleet"
	"colonnade/reasons"
)

// An entry without documents refuses requests as starting; one whose first table comes between the head and the body of a request asks
// for it again, since the body was not read.
func TestReasonsOfAStart(t *testing.T) {
	table := tableOf(t, "key: models/m\nmax_body: 1MiB\n"+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {}))
	long := `{"model":"m","messages":["` + strings.Repeat("x", 100<<10) + `"]}`
	f := func(reason string, starting func() bool) {
		t.Helper()
		url, _ := startEntryWith(t, Config{Table: func() *fleet.Table { return table }, Starting: starting}, t.TempDir())
		if status, answer := chat(t, url, long); status != 503 || !strings.Contains(answer, `"reason":"`+reason+`"`) {
			t.Errorf("%s: answer %d %s", reason, status, answer)
		}
	}
	f(reasons.Starting, func() bool { return true })
	var asked atomic.Int64
	f(reasons.TableChanged, func() bool { return asked.Add(1) == 1 })
}
