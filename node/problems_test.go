package node_test

import (
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// An entry that must refuse every request for the lack of keys says so, until there is a key or an issuer of tokens.
func TestEntryWithoutKeysIsAProblem(t *testing.T) {
	t.Parallel()
	const metric = "colonnade_problems{kind=\"no_api_key\",severity=\"error\"} "
	s := etcdtest.Start(t)
	r, _ := startEntry(t, config(t, s, "entry-1"))
	await := func(n string) {
		t.Helper()
		testkit.WaitFor(t, metric+n, func() bool { return strings.Contains(page(t, r, "/metrics"), metric+n+"\n") })
	}
	await("1")
	const issuer = `{"issuer": "https://idp.example", "jwks": "http://127.0.0.1:1/jwks", "audience": "api"}`
	if _, err := s.Client(t).Put(t.Context(), node.Prefix+"issuers/idp", issuer); err != nil {
		t.Fatal(err)
	}
	await("0")
}
