package gossip_test

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"colonnade/discovery/gossip"
	"colonnade/internal/testkit"
)

// A name or an address that is not that of a process is refused before the library takes it up.
func TestNamesAndAddressesAreChecked(t *testing.T) {
	t.Parallel()
	_, alive, _ := gossip.NewAdapter("ams-1", "b", slog.New(slog.DiscardHandler))
	f := func(name string, ip net.IP, port uint16, want bool) {
		t.Helper()
		if err := alive.NotifyAlive(&memberlist.Node{Name: name, Addr: ip, Port: port}); (err == nil) != want {
			t.Errorf("%q at %v:%d: %v", name, ip, port, err)
		}
	}
	here := net.IPv4(10, 0, 0, 1).To4()
	f("ams-2#boot", here, 1, true)
	f("ams-2#boot", net.ParseIP("fe80::1"), 1, true)
	for _, name := range []string{"", "#", "ams-2", "ams-2#", "#boot", "a#b#c", "a b#c", "a\n#c", "ä#b", strings.Repeat("a", 129) + "#b"} {
		f(name, here, 1, false)
	}
	f("ams-2#boot", here, 0, false)
	f("ams-2#boot", nil, 1, false)
	f("ams-2#boot", net.IP{1, 2, 3}, 1, false)
	f("ams-2#boot", net.IPv4zero, 1, false)
	f("ams-2#boot", net.IPv4(224, 0, 0, 1), 1, false)
}

// A thousand processes are known at most: the one that died first is forgotten first, and living ones are not forgotten for new ones.
func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, alive, list := gossip.NewAdapter("ams-1", "b", slog.New(slog.DiscardHandler))
		node := func(n int) *memberlist.Node {
			return &memberlist.Node{Name: fmt.Sprintf("ams-2#%05d", n), Addr: net.IPv4(10, 0, 0, 1), Port: 1}
		}
		for n := range gossip.MaxMembers {
			events.NotifyJoin(node(n))
		}
		if err := alive.NotifyAlive(node(gossip.MaxMembers)); err == nil {
			t.Error("one more is accepted while all others live")
		}
		events.NotifyLeave(node(7))
		time.Sleep(time.Second)
		events.NotifyLeave(node(8))
		if err := alive.NotifyAlive(node(gossip.MaxMembers)); err != nil {
			t.Error(err)
		}
		all := list()
		if last := all[len(all)-1]; len(all) != gossip.MaxMembers-1 || last.Boot != "00008" {
			t.Errorf("%d members are known, the last of them %s", len(all), last.Boot)
		}
		time.Sleep(11 * time.Minute)
		events.NotifyJoin(node(gossip.MaxMembers))
		if all := list(); !all[len(all)-1].Alive {
			t.Error("a process that died eleven minutes ago is still known")
		}
	})
}

// Lines of the library become records of one line, bounded in length and number, and none after the end.
func TestLibraryLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out testkit.SyncBuffer
		line, end := gossip.NewLibraryLogger(slog.New(slog.NewTextHandler(&out, nil)))
		line("[DEBUG] memberlist: not shown")
		line("[ERR] memberlist: not shown either")
		line("[WARN] memberlist: Got ping\nfor another " + strings.Repeat("x", 5000))
		if got := out.String(); !strings.Contains(got, `text="Got ping for another xxx`) || strings.Contains(got, "shown") || len(got) > 700 || strings.Count(got, "\n") != 1 {
			t.Errorf("logged: %s", got)
		}
		for range 1000 {
			line("[WARN] memberlist: again")
		}
		if n := strings.Count(out.String(), "\n"); n != 5 {
			t.Errorf("%d lines, want 5", n)
		}
		time.Sleep(time.Minute)
		line("[WARN] memberlist: later")
		if got := out.String(); !strings.Contains(got, "suppressed=996") {
			t.Errorf("logged: %s", got)
		}
		end()
		time.Sleep(time.Minute)
		line("[WARN] memberlist: after the end")
		if strings.Contains(out.String(), "after the end") {
			t.Error("a line after the end is logged")
		}
	})
}
