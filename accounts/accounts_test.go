package accounts_test

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// table builds a table of documents, and of API keys.
func table(t testing.TB, documents map[string]string, keys ...fleet.APIKey) *fleet.Table {
	t.Helper()
	d := document.NewSet()
	put := func(key string, value []byte) {
		if err := d.Put(key, value, 1); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range documents {
		put(key, []byte(value))
	}
	for _, k := range keys {
		doc, err := document.EncodeAPIKey(&k)
		if err != nil {
			t.Fatal(err)
		}
		put(doc.Key, doc.Value)
	}
	return d.Table()
}

// A valid key belongs to its account until it expires. Any other is refused by an error that does not repeat it, or is the open
// account's in an open fleet.
func TestIdentify(t *testing.T) {
	acme, acmeDoc := accounts.NewKey("acme", "k1", now, time.Time{})
	brief, briefDoc := accounts.NewKey("brief", "", now, now.Add(time.Hour))
	plain, plainDoc := accounts.NewKey("plain", "", now, time.Time{}) // its account has no document
	fleetTable := table(t, map[string]string{"accounts/acme": "weight: 4\npriority: interactive", "accounts/brief": "weight: 2"}, acmeDoc, briefDoc, plainDoc)
	f := func(key string, open bool, at time.Time, want string, wantErr error) {
		t.Helper()
		caller, err := accounts.Identify(fleetTable, key, open, at)
		if !errors.Is(err, wantErr) {
			t.Fatalf("%q, open %v: got error %v, want %v", key, open, err, wantErr)
		}
		if err != nil {
			if key != "" && strings.Contains(err.Error(), key) {
				t.Errorf("the error repeats the key: %v", err)
			}
			return
		}
		if caller.Account.Name != want || (caller.KeyID == "") != (want == accounts.Open) {
			t.Errorf("%q, open %v: got account %q by key %q, want %q", key, open, caller.Account.Name, caller.KeyID, want)
		}
	}
	for _, open := range []bool{false, true} {
		f(acme, open, now, "acme", nil)
		f(acme, open, now.AddDate(50, 0, 0), "acme", nil)
		f(brief, open, now.Add(time.Hour-1), "brief", nil)
		f(plain, open, now, "plain", nil)
	}
	others := map[string]error{
		"": accounts.ErrNoKey, "sk-whatever": accounts.ErrBadKey, acme + "x": accounts.ErrBadKey,
		acme[:len(acme)-1]: accounts.ErrBadKey, strings.Repeat("x", 1<<20): accounts.ErrBadKey,
		hex.EncodeToString(acmeDoc.SHA256[:]): accounts.ErrBadKey,
	}
	for key, want := range others {
		f(key, false, now, "", want)
		f(key, true, now, accounts.Open, nil)
	}
	f(brief, false, now.Add(time.Hour), "", accounts.ErrExpiredKey)
	f(brief, true, now.Add(time.Hour), accounts.Open, nil)
}

// A caller has the limits of its key, whichever of them the key has.
func TestLimitsOfKey(t *testing.T) {
	for _, limits := range []fleet.RateLimits{{}, {OutputTokens: 5}, {RequestsPerMinute: 5}} {
		key, doc := accounts.NewKey("acme", "k1", now, time.Time{})
		doc.Limits = limits
		caller, err := accounts.Identify(table(t, nil, doc), key, false, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := caller.KeyLimits; (got == nil) != (limits == fleet.RateLimits{}) || got != nil && *got != limits {
			t.Errorf("limits %+v, want %+v", got, limits)
		}
	}
}

// A key that registers engines is for no requests, and the error says so; an open fleet serves its sender as any other without a key.
func TestWorkerKeyIsForNoRequests(t *testing.T) {
	key, doc := accounts.NewWorkerKey("gpus", now, now.Add(time.Hour))
	fleetTable := table(t, nil, doc)
	if _, err := accounts.Identify(fleetTable, key, false, now); !errors.Is(err, accounts.ErrWorkerKey) || strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
	if _, err := accounts.Identify(fleetTable, key, false, now.Add(time.Hour)); !errors.Is(err, accounts.ErrExpiredKey) {
		t.Errorf("once it has expired: got %v", err)
	}
	if caller, err := accounts.Identify(fleetTable, key, true, now); err != nil || caller.Account.Name != accounts.Open || caller.KeyID != "" {
		t.Errorf("in an open fleet: got %+v, %v", caller, err)
	}
	if fleetTable.HasAPIKeys() || !fleetTable.HasWorkerKeys() {
		t.Error("it counts as a key for requests")
	}
}

// The id of a key is what stands between cn_ and its last underscore.
func TestKeyID(t *testing.T) {
	for key, want := range map[string]string{
		"cn_a_SECRET": "a", "cn_my_gpus_SECRET": "my_gpus", "cn_a": "", "sk-a_b": "", "": "", "cn__x": "", "cn_a_" + strings.Repeat("x", 300): "",
	} {
		if got := accounts.KeyID(key); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

// A key that names an account without a document gets the defaults.
func TestIdentifyWithoutDocument(t *testing.T) {
	key, doc := accounts.NewKey("plain", "", now, time.Time{})
	caller, err := accounts.Identify(table(t, map[string]string{"accounts/other": "weight: 4"}, doc), key, false, now)
	if err != nil {
		t.Fatal(err)
	}
	if a := caller.Account; a.Name != "plain" || a.Weight != 1 || a.Priority != fleet.PriorityStandard || !caller.MayUse("any") {
		t.Errorf("got %+v", a)
	}
}

func TestOpenFleetServesAnonymousCallers(t *testing.T) {
	f := func(documents map[string]string, weight int, priority string) {
		t.Helper()
		caller, err := accounts.Identify(table(t, documents), "", true, now)
		if err != nil {
			t.Fatal(err)
		}
		a := caller.Account
		if a.Name != accounts.Open || a.Weight != weight || a.Priority != priority || !caller.MayUse("any") {
			t.Errorf("got %+v, want weight %d, priority %s, every model", a, weight, priority)
		}
	}
	f(nil, 1, fleet.PriorityStandard)
	f(map[string]string{"accounts/open": "weight: 3\npriority: batch"}, 3, fleet.PriorityBatch)
}

// An account without a list of models may use all, and one with a list only the models in it.
func TestMayUse(t *testing.T) {
	f := func(models []string, model string, want bool) {
		t.Helper()
		caller := accounts.Caller{Account: &fleet.Account{Models: models}}
		if got := caller.MayUse(model); got != want {
			t.Errorf("%v, %q: got %v, want %v", models, model, got, want)
		}
	}
	f(nil, "m", true)
	f([]string{}, "m", false)
	f([]string{"a", "m"}, "m", true)
	f([]string{"a", "m"}, "M", false)
}

// The scheme Bearer has any case; a header Authorization of another scheme has no key. The same key may be in several places, and two that differ
// are refused without a word of either.
func TestKey(t *testing.T) {
	f := func(in, want string, others ...string) {
		t.Helper()
		got, err := accounts.Key(in, others...)
		if got != want || (err != nil) != (want == "" && len(others) > 1) {
			t.Errorf("%q, %q: got %q, %v, want %q", in, others, got, err, want)
		}
		if err != nil && (!errors.Is(err, accounts.ErrTwoKeys) || strings.Contains(err.Error(), "cn_a_b")) {
			t.Errorf("%q, %q: %v", in, others, err)
		}
	}
	f("Bearer cn_a_b", "cn_a_b")
	f("bearer  cn_a_b ", "cn_a_b")
	f("BEARER x y", "x y") // no key has a space: refused later
	f("", "")
	f("Bearer", "")
	f("Bearer ", "")
	f("Bearercn_a_b", "")
	f("Basic cn_a_b", "")
	f("cn_a_b", "")
	f("", "cn_a_b", "cn_a_b")
	f("", "cn_a_b", "", " cn_a_b ", "")
	f("Basic x", "cn_a_b", "cn_a_b")
	f("Bearer cn_a_b", "cn_a_b", "", "cn_a_b", "")
	f("Bearer cn_a_b", "", "cn_a_c", "")
	f("Bearer cn_a_b", "", "cn_a_b", "cn_a_bc")
	f("", "", "cn_a_b", "CN_A_B")
	f("Bearer ", "", "x", "y", "x")
}

// A new key shows its id, is unique, and has a document with its times.
func TestNewKey(t *testing.T) {
	shape := regexp.MustCompile(`^cn_[a-z0-9]{10}_[A-Z2-7]{26}$`)
	seen := map[string]bool{}
	for range 100 {
		key, doc := accounts.NewKey("acme", "", now, time.Time{})
		if !shape.MatchString(key) || !strings.HasPrefix(key, "cn_"+doc.ID+"_") || doc.Account != "acme" || !doc.Created.Equal(now) || !doc.Expires.IsZero() {
			t.Fatalf("key %q, document %+v", key, doc)
		}
		if seen[key] || seen[doc.ID] {
			t.Fatalf("%q was made twice", key)
		}
		seen[key], seen[doc.ID] = true, true
	}
	if key, doc := accounts.NewKey("acme", "laptop", now, now); !strings.HasPrefix(key, "cn_laptop_") || doc.ID != "laptop" || !doc.Expires.Equal(now) {
		t.Errorf("key %q, document %+v", key, doc)
	}
}

func BenchmarkIdentify(b *testing.B) {
	key, doc := accounts.NewKey("acme", "k1", now, time.Time{})
	for name, documents := range map[string]map[string]string{"with a document": {"accounts/acme": "weight: 4"}, "with the defaults": nil} {
		t := table(b, documents, doc)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := accounts.Identify(t, key, false, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
