package hops_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
)

// A request that two servers might read in two ways never becomes two on the way over two colos: it is refused and reaches no engine, or
// the engine of the last colo gets it once, as the only one behind its body.
func TestDesyncOverTwoHops(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(4), noSpill, "")
	f.fill("ams")
	fra := f.Engine("fra")
	hidden := "POST " + fleettest.ChatPath + " HTTP/1.1\r\nHost: fleet\r\nContent-Length: 2\r\n\r\n{}"
	for _, model := range both {
		// White space in JSON may hold line ends, and a string anything that is escaped.
		plain := fmt.Sprintf("{\r\n\r\n\"model\":%q,\r\n\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":%s}]\r\n\r\n}\r\n\r\n", model, strconv.Quote(hidden))
		length := "Content-Length: " + strconv.Itoa(len(plain))
		chunked := wiretest.Chunked(plain, 7)
		for _, c := range []struct {
			lines, content string
			good           bool
		}{
			{length, plain, true}, {"content-length:" + strconv.Itoa(len(plain)) + " ", plain, true},
			{"Transfer-Encoding: chunked", chunked, true}, {"Transfer-Encoding: chunked", wiretest.Chunked(plain, 1), true},
			{length + "\r\n" + length, plain, false}, {length + "\r\nContent-Length: 5", plain, false}, {"Content-Length: +" + strconv.Itoa(len(plain)), plain, false},
			{length + "\r\nTransfer-Encoding: chunked", chunked, false}, {"Transfer-Encoding: chunked\r\nContent-Length: 5", chunked, false},
			{"Transfer-Encoding: gzip, chunked", chunked, false}, {"Transfer-Encoding : chunked", chunked, false}, {"Transfer-Encoding:\r\n chunked", chunked, false},
			{"Transfer-Encoding: chunked", "0" + chunked[1:], false}, {"Transfer-Encoding: chunked", strings.Replace(chunked, "\r\n", "\n", 1), false},
			{"Transfer-Encoding: chunked", "-" + chunked, false}, {"Content-Length: " + strconv.Itoa(len(hidden)), hidden, false},
		} {
			before := fra.Stats()
			w := wiretest.Dial(t, f.Entry.Address)
			w.Send("POST "+fleettest.ChatPath+" HTTP/1.1", []string{"Host: fleet", "Content-Type: application/json", c.lines}, c.content+hidden)
			a := w.Read()
			got := fra.Stats()
			switch {
			case !c.good:
				if a.Status != 400 || got.Requests != before.Requests {
					t.Errorf("%s, %q: %d %.200q, and the engine got %d requests", model, c.lines, a.Status, a.Body, got.Requests-before.Requests)
				}
			case a.Status != 200 || a.Header.Get("x-colonnade-colo-path") != "ams, fra" || got.Requests != before.Requests+1:
				t.Errorf("%s, %q: %d over %s %.200q, and the engine got %d requests", model, c.lines, a.Status, a.Header.Get("x-colonnade-colo-path"), a.Body,
					got.Requests-before.Requests)
			default:
				all := fra.Received()
				if last := all[len(all)-1]; last.Method != "POST" || last.Target != fleettest.ChatPath || last.Model != "demo-chat" ||
					string(last.Body) != strings.Replace(plain, strconv.Quote(model), `"demo-chat"`, 1) {
					t.Errorf("%s, %q: the engine got %s %s %q", model, c.lines, last.Method, last.Target, last.Body)
				}
				if next := w.Read(); next.Status != 400 || fra.Stats().Requests != got.Requests { // a request of its own, without a model
					t.Errorf("%s, %q: what follows: %d, and the engine got %d requests", model, c.lines, next.Status, fra.Stats().Requests-got.Requests)
				}
			}
			w.Close()
		}
	}
}
