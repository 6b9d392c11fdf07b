package main

import (
	"fmt"
	"io"
	"time"

	"colonnade/accounts"
	"colonnade/fleet/document"
	"colonnade/onebox"
)

// demoAccount returns an account and its API key. Their documents replace those of an earlier start.
func demoAccount(now time.Time) (key string, docs []document.Raw, err error) {
	const name, text = "demo", "# Written by colonnade up at each start.\nweight: 4\npriority: interactive\n"
	key, entry := accounts.NewKey(name, name, now.UTC().Truncate(time.Second), time.Time{})
	doc, err := document.EncodeAPIKey(&entry)
	return key, []document.Raw{{Key: accountKey(name), Value: []byte(text)}, doc}, err
}

// printQuickstart prints commands to try first. key is that of the account demo.
func printQuickstart(out io.Writer, f *onebox.Fleet, c onebox.Config, key string) {
	bearer := "-H 'authorization: Bearer " + key + "' "
	auth, apiKey, trust := "", "none", ""
	if !c.Open {
		auth, apiKey = bearer, key
	}
	if file := c.TLS.Cert; file != "" { // this machine may not trust its issuer
		auth, bearer = "--cacert "+file+" "+auth, "--cacert "+file+" "+bearer
		trust = ", started with SSL_CERT_FILE=" + file + " (Node: NODE_EXTRA_CA_CERTS)"
	}
	chat := func(auth string) string {
		return fmt.Sprintf(`  curl -N %[1]s/chat/completions %[2]s-H 'content-type: application/json' \
    -d '{"model":"default","stream":true,"messages":[{"role":"user","content":"hello"}]}'
`, f.URL(), auth)
	}
	if c.Open {
		fmt.Fprintf(out, `
A streamed chat. Without a valid key, it belongs to the account open:

%[1]s
The same as the account demo, with its key until the next start. In queues, its requests go before
those of the account open (priority: interactive, weight: 4):

%[2]s`, chat(auth), chat(bearer))
	} else {
		fmt.Fprintf(out, `
A streamed chat as the account demo, with its key until the next start. Without a valid key, it is
refused:

%s`, chat(bearer))
	}
	load := demoLoadOf(f, c)
	fmt.Fprintf(out, `
A key for another account; only its hash is kept:

  bin/colonnade keys create -etcd %[5]s -account acme

The OpenAI SDK for Python (npm's takes baseURL and apiKey)%[8]s:

  OpenAI(base_url=%[1]q, api_key=%[7]q)

%[2]d requests at once, for %[3]d slots: %[4]s
get a 429 with a reason and the time to come back:

  seq %[2]d | xargs -P %[2]d -I{} curl -s -o /dev/null \
    -w '%%{http_code} colo=%%header{x-colonnade-colo} reason=%%header{x-colonnade-reason} retry-after=%%header{retry-after}\n' \
    %[1]s/chat/completions %[6]s-H 'content-type: application/json' -d '{"model":"default","messages":[{"role":"user","content":"hello"}]}' | sort | uniq -c

Who holds slots and who waits meanwhile, in another terminal:

  bin/colonnade status -etcd %[5]s -watch

Ctrl-C stops the fleet.
`, f.URL(), load.requests, load.slots, load.outcome, f.Etcd, auth, apiKey, trust)
}

// demoLoad is a number of requests at once that shows all that can happen to a request.
type demoLoad struct {
	requests, slots int
	outcome         string
}

// demoLoadOf returns the load for a fleet. A colo queues a dozen requests of one account, so twice as many beyond its
// slots are too many.
func demoLoadOf(f *onebox.Fleet, c onebox.Config) demoLoad {
	colos := map[string]bool{}
	for _, e := range f.Engines {
		colos[e.Colo] = true
	}
	slots := len(f.Engines) * c.Engine.Slots
	load := demoLoad{max(4*slots, slots+24*len(colos)), slots, "some run, some queue, and the rest"}
	if len(colos) > 1 {
		load.outcome = "some run here, some spill over to the next colo, some queue, and the rest"
	}
	return load
}
