package trust_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// The header lines that a node signs and those that the next one verifies are the same, however a client writes their values.
func TestOddValuesAreSignedAsTheyArrive(t *testing.T) {
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+"forward_headers: [x-tag, X-Tag2, accept]\n")
	watchNodes(f, 32)
	for _, name := range []string{"Accept", "User-Agent", "traceparent", "x-tag", "X-TAG2"} {
		for _, value := range []string{"", " ", "a", " a", "a ", "a\t", "\ta", " \t a \t ", "a  b", "a\tb", "\xff\xfe", ",", ",,a", `"a`, "\u00e4", strings.Repeat("a", 4000)} {
			w := wiretest.Dial(t, f.Entry.Address)
			w.Send(firstLine, []string{"Host: fleet", "content-type:application/json; charset=\"utf-8\" ", name + ":" + value,
				fmt.Sprintf("Content-Length: %d", len(fleettest.StubBody))}, fleettest.StubBody)
			if a := w.Read(); a.Status != 200 {
				t.Errorf("%s: %.40q: %d %.300q", name, value, a.Status, a.Body)
			}
			w.Close()
		}
	}
	heard, _ := engine.rewind()
	if len(heard) != 5*16 {
		t.Errorf("the engine got %d requests", len(heard))
	}
}
