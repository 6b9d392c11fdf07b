package hop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colonnade/forwarding/hop"
)

// stops returns n stops that every server accepts in a token.
func stops(n int) []hop.Stop {
	all := make([]hop.Stop, n)
	for i := range all {
		colo := fmt.Sprintf("colo%d", i+1)
		all[i] = hop.Stop{
			Colo: colo, Node: colo + "-1", Address: "10.0.0.7:8443", Boot: "ABCDEFGHIJKLM", Revision: 7, ReturnProbability: 0.25,
			RoundTrip: hop.Millis(8 * time.Millisecond), Last: i == n-1,
		}
	}
	return all
}

// toAms is the request of a token for the server ams-1 of the colo ams.
func toAms() hop.Binding {
	to := testTarget()
	to.Audience = "ams/ams-1"
	return to
}

func onwardToken(visited ...string) hop.Token {
	h := testHop()
	h.Visited, h.HopsLeft, h.Onward = visited, 20, stops(3)
	return h
}

func TestOnwardRoundTrip(t *testing.T) {
	keys := hop.RandomKeys()
	for _, visited := range [][]string{nil, {"fra/fra-1"}} {
		want := onwardToken(visited...)
		got, err := verify(keys, mustSign(t, keys, want, toAms()), toAms(), testTime)
		if err != nil || !reflect.DeepEqual(got.Onward, want.Onward) || !slices.Equal(got.Visited, visited) {
			t.Errorf("Verify = %+v, %v", got, err)
		}
	}
}

// A token is refused if one of its stops is not such as a sender may name.
func TestOnwardRefused(t *testing.T) {
	keys := hop.RandomKeys()
	f := func(reason string, change func(*hop.Token)) {
		t.Helper()
		h := onwardToken("fra/fra-1")
		change(&h)
		_, err := verify(keys, mustSign(t, keys, h, toAms()), toAms(), testTime)
		if !errors.Is(err, hop.ErrBadToken) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: Verify = %v", reason, err)
		}
	}
	f("it has 17 stops, at most 16", func(h *hop.Token) { h.Onward = stops(17) })
	f(`stop 2 is in colo "ams", which has the request`, func(h *hop.Token) { h.Onward[1].Colo = "ams" })
	f(`stop 1 is in colo "fra", which the request has visited`, func(h *hop.Token) { h.Onward[0].Colo, h.Onward[0].Node = "fra", "fra-2" })
	f(`stop 3 is in colo "iad", which the request has visited`, func(h *hop.Token) { h.Visited, h.Onward[2].Colo = []string{"iad/i", "fra/f"}, "iad" })
	f(`stop 2 is in colo "colo1", which the request has visited`, func(h *hop.Token) { h.Onward[1].Colo = "colo1" })
	f(`"fra-1", whose colo is not named`, func(h *hop.Token) { h.Visited = []string{"fra-1"} })
	f(`"/fra-1", whose colo is not named`, func(h *hop.Token) { h.Visited = []string{"/fra-1"} })
	for _, name := range []string{"", "a/b", "-a", "a b", "a,b", "a|b", "\u00e4", strings.Repeat("a", 129)} {
		f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].Colo = name })
		f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].Node = name })
	}
	for _, address := range []string{"", "h", "h:0", ":1", "h:65536", "h/p:1", "u@h:1"} {
		f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].Address = address })
	}
	for _, boot := range []string{"", "a b", strings.Repeat("b", 65)} {
		f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].Boot = boot })
	}
	f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].ReturnProbability = 1.1 })
	f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].ReturnProbability = -0.1 })
	f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].RoundTrip = hop.Millis(-time.Millisecond) })
	f("stop 2 is not valid", func(h *hop.Token) { h.Onward[1].Revision = -1 })
}

// PlaceOnward places what the receiver accepts, and no more than there are hops left.
func TestPlaceOnward(t *testing.T) {
	f := func(want int, change func(h *hop.Token, s []hop.Stop)) {
		t.Helper()
		h, all := onwardToken("fra/fra-1"), stops(20)
		h.Onward = nil
		change(&h, all)
		h.PlaceOnward("ams", all)
		if len(h.Onward) != want || want > 0 && !reflect.DeepEqual(h.Onward, all[:want]) {
			t.Errorf("%d stops are placed, want %d: %+v", len(h.Onward), want, h.Onward)
		}
		keys := hop.RandomKeys()
		if _, err := verify(keys, mustSign(t, keys, h, toAms()), toAms(), testTime); err != nil {
			t.Error(err)
		}
	}
	f(16, func(*hop.Token, []hop.Stop) {})
	f(2, func(h *hop.Token, _ []hop.Stop) { h.HopsLeft = 2 })
	f(0, func(h *hop.Token, _ []hop.Stop) { h.HopsLeft = -1 })
	f(4, func(_ *hop.Token, s []hop.Stop) { s[4].Colo = "ams" })
	f(3, func(_ *hop.Token, s []hop.Stop) { s[3].Colo = "fra" })
	f(2, func(_ *hop.Token, s []hop.Stop) { s[2].Colo = s[1].Colo })
	f(1, func(_ *hop.Token, s []hop.Stop) { s[1].Boot = "put by hand" })
	f(0, func(_ *hop.Token, s []hop.Stop) { s[0].Address = "" })
	f(0, func(h *hop.Token, _ []hop.Stop) { h.Visited = []string{"fra-1"} })
	h := onwardToken()
	if h.PlaceOnward("ams", nil); h.Onward != nil {
		t.Errorf("none are placed as %+v", h.Onward)
	}
}

// The last stops that do not fit are left out when a token is signed, and no more of them than necessary.
func TestStopsThatDoNotFit(t *testing.T) {
	keys := hop.RandomKeys()
	f := func(room, want int, change func(*hop.Token)) {
		t.Helper()
		h, to := onwardToken("fra/fra-1"), toAms()
		h.Onward = stops(16)
		change(&h)
		to.MaxToken = room
		token := mustSign(t, keys, h, to)
		got, err := verify(keys, token, toAms(), testTime)
		if err != nil || len(got.Onward) != want || want > 0 && !reflect.DeepEqual(got.Onward, h.Onward[:want]) {
			t.Errorf("%d of 16 stops are left in %d bytes, %v; want %d", len(got.Onward), len(token), err, want)
		}
		if limit := 8 << 10; len(token) > limit || want > 0 && room > 0 && len(token) > room {
			t.Errorf("the token has %d bytes, at most %d", len(token), room)
		}
	}
	f(0, 16, func(*hop.Token) {})
	f(1<<20, 16, func(*hop.Token) {})
	f(2000, 11, func(*hop.Token) {})
	f(560, 0, func(*hop.Token) {})
	f(1, 0, func(*hop.Token) {})
	long := func(h *hop.Token) {
		for i := range h.Onward {
			h.Onward[i].Address = strings.Repeat("a", 253) + ":1"
			h.Onward[i].Node = strings.Repeat("n", 128)
			h.Onward[i].Boot = strings.Repeat("b", 64)
		}
	}
	f(0, 11, long)
	f(1<<20, 11, long)
	h := onwardToken()
	h.ClientRequestID = strings.Repeat("x", 8<<10)
	if token, err := keys.Sign(&h, hop.NewSequence("boot"), new(toAms()), testTime); err == nil {
		t.Errorf("a token of %d bytes is signed", len(token))
	}
}

// A server accepts tokens to COLO/NODE, and of older senders those to NODE. It accepts none to a node of the same name in another colo.
func TestAudiences(t *testing.T) {
	keys := hop.RandomKeys()
	f := func(signedFor, audience, old string, want bool) {
		t.Helper()
		signed, received := testTarget(), testTarget()
		signed.Audience, received.Audience, received.OldAudience = signedFor, audience, old
		_, err := verify(keys, mustSign(t, keys, testHop(), signed), received, testTime)
		if (err == nil) != want || err != nil && !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("signed for %q, to %q or %q: %v", signedFor, audience, old, err)
		}
	}
	f("ams/s1", "ams/s1", "s1", true)
	f("s1", "ams/s1", "s1", true)
	f("s1", "ams/s1", "", false)
	f("fra/s1", "ams/s1", "s1", false)
	f("ams/s2", "ams/s1", "s1", false)
	f("ams", "ams/s1", "s1", false)
	f("", "ams/s1", "s1", false)
	f("", "ams/s1", "", false)
}

// acceptable reports whether a server of a colo accepts the stops of a token, in a naive way.
func acceptable(h hop.Token, colo string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	consists := func(s, of string, most int) bool { return s != "" && len(s) <= most && strings.Trim(s, of) == "" }
	isName := func(s string) bool { return consists(s, letters+"._:@+-", 128) && strings.Contains(letters, s[:1]) }
	seen := []string{colo}
	for _, v := range h.Visited {
		parts := strings.Split(v, "/")
		if len(parts) != 2 || !isName(parts[0]) || !isName(parts[1]) {
			return false
		}
		seen = append(seen, parts[0])
	}
	for _, s := range h.Onward {
		host, port, err := net.SplitHostPort(s.Address)
		n, numeric := strconv.Atoi(port)
		isHost := consists(host, letters+"._-", 253)
		if ip, err := netip.ParseAddr(host); strings.HasPrefix(s.Address, "[") {
			isHost = err == nil && ip.Zone() == ""
		}
		switch {
		case err != nil || numeric != nil || strconv.Itoa(n) != port || n < 1 || n > 65535 || !isHost,
			!isName(s.Colo) || !isName(s.Node) || !consists(s.Boot, letters+"._-", 64),
			s.ReturnProbability < 0 || s.ReturnProbability > 1 || s.RoundTrip < 0 || s.Revision < 0,
			slices.Contains(seen, s.Colo):
			return false
		}
		seen = append(seen, s.Colo)
	}
	return len(h.Onward) <= 16
}

// A token that is signed by a key of the fleet is accepted if all of its stops are acceptable, and what PlaceOnward places always is.
func FuzzOnward(f *testing.F) {
	encoded := func(all []hop.Stop) string {
		text, err := json.Marshal(all)
		if err != nil {
			f.Fatal(err)
		}
		return string(text)
	}
	twice := append(stops(2), stops(2)...)
	f.Add("ams", "fra/fra-1", encoded(stops(3)))
	f.Add("ams", "", encoded(stops(17)))
	f.Add("colo1", "a/b,c/d", encoded(stops(2)))
	f.Add("x", "fra-1", encoded(stops(1)))
	f.Add("x", "colo2/b", encoded(twice))
	f.Add("x", "a/b", `[{"colo":"c","node":"n","at":"[::1]:1","boot":"b","chc":1},{"colo":"d/","at":"[::1%a]:1"},{"rtt":-1,"rev":-1,"last":true}]`)
	keys := hop.RandomKeys()
	f.Fuzz(func(t *testing.T, colo, visited, onward string) {
		h := testHop()
		h.Visited, h.HopsLeft = nil, 16
		if visited != "" {
			h.Visited = strings.Split(visited, ",")
		}
		if len(onward)+len(visited) > 3<<10 || !utf8.ValidString(visited) || json.Unmarshal([]byte(onward), &h.Onward) != nil || len(h.Onward) > 20 {
			return
		}
		to := testTarget()
		to.Audience = hop.NodeName(colo, "n")
		receiver, _ := hop.SplitNodeName(to.Audience)
		signed, err := keys.Sign(&h, hop.NewSequence("boot"), &to, testTime)
		if err != nil {
			return // too long
		}
		got, err := verify(keys, signed, to, testTime)
		if want := len(h.Onward) == 0 || acceptable(h, receiver); (err == nil) != want || err != nil && !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("to %s, visited %q, stops %+v: %v", colo, h.Visited, h.Onward, err)
		}
		if err == nil && len(got.Onward) != len(h.Onward) {
			t.Errorf("%d stops are left of %+v", len(got.Onward), h.Onward)
		}
		all := h.Onward
		h.PlaceOnward(receiver, all)
		if len(h.Onward) > 0 && !acceptable(h, receiver) {
			t.Errorf("to %s, visited %q: %+v are placed", colo, h.Visited, h.Onward)
		}
		if n := len(h.Onward); n < min(len(all), 16) {
			h.Onward = all[:n+1]
			if acceptable(h, receiver) {
				t.Errorf("to %s, visited %q: %d of %+v are placed", colo, h.Visited, n, all)
			}
		}
	})
}
