package acmecert_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/acmecert"
	"colonnade/internal/acmetest"
)

// cacheFiles returns the files below the directory of the certificates.
func (p *place) cacheFiles() (paths []string) {
	p.t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.config.CacheDir, "*", "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	return paths
}

// The first certificate is there as soon as the authority has answered. Until then a handshake fails at once.
func TestFirstCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, "API.example.org", api, chat)
		p.open()
		p.refuses(api, "internal error")
		if got := p.authority.Requests(); len(got) > 0 {
			t.Errorf("requests before Run: %q", got)
		}
		if !p.source.Expires().IsZero() {
			t.Error("expires, although there is no certificate")
		}
		p.run()
		p.serial(api)
		p.serial(chat)
		p.serial(strings.ToUpper(api))
		if want := time.Now().Add(acmetest.DefaultLifetime); !p.source.Expires().Equal(want.Truncate(time.Second)) || p.state(api).Problem != "" {
			t.Errorf("expires %v, want %v; state %+v", p.source.Expires(), want, p.state(api))
		}
		if got := p.authority.Orders(); got != 2 {
			t.Errorf("%d orders, want 2", got)
		}
		if got := p.warnings(); len(got) > 0 {
			t.Errorf("warnings: %q", got)
		}
		files := p.cacheFiles()
		if len(files) != 3 {
			t.Errorf("files: %q", files)
		}
		for _, path := range append(files, filepath.Dir(files[0])) {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	})
}

// While a certificate is renewed, the old one stays in force until the new one is there.
func TestRenewalWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.start()
		first := p.serial(api)
		var during atomic.Int32
		p.authority.SetFault(func(r *http.Request) (*acmetest.Problem, error) {
			if during.Add(1); p.serial(api).Cmp(first) != 0 {
				t.Errorf("another certificate at %s", r.URL.Path)
			}
			return nil, nil
		})
		time.Sleep(renew - time.Minute)
		if n := during.Load(); n > 0 {
			t.Errorf("%d requests long before the certificate expires", n)
		}
		time.Sleep(acmetest.DefaultLifetime/10 + time.Minute)
		if n := during.Load(); n == 0 || p.serial(api).Cmp(first) == 0 {
			t.Errorf("not renewed; %d requests", n)
		}
		if left := time.Until(p.source.Expires()); left < renew {
			t.Errorf("the new certificate expires in %v", left)
		}
	})
}

// A new process uses the certificates of the one before, and does not ask the authority until one has to be renewed.
func TestRestartFromCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		p.start()
		first := p.serial(api)
		p.stop()
		before := len(p.authority.Requests())
		p.open()
		if p.serial(api).Cmp(first) != 0 {
			t.Error("another certificate before Run")
		}
		p.run()
		time.Sleep(renew - time.Minute)
		if got := p.authority.Requests()[before:]; len(got) > 0 || p.serial(api).Cmp(first) != 0 {
			t.Errorf("requests after the restart: %q", got)
		}
		time.Sleep(acmetest.DefaultLifetime/10 + time.Minute)
		if p.serial(api).Cmp(first) == 0 || p.requested("/finalize") != 4 {
			t.Errorf("not renewed after the restart: %d certificates", p.requested("/finalize"))
		}
	})
}

// Another authority does not get the account key of this one, and a certificate of a test authority is not used with another one.
func TestEachAuthorityHasItsOwnFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.start()
		p.stop()
		p.authority = acmetest.New(t, "https://other.example", p.dial)
		p.config.Directory = p.authority.Directory()
		p.open()
		p.refuses(api, "internal error")
		p.run()
		p.serial(api)
		p.stop()
	})
}

// While the authority is away, the old certificate is served, the log gets a line now and then, and the authority few requests.
func TestAuthorityAwayAtRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		p.start()
		first, before := p.serial(api), len(p.authority.Requests())
		p.authority.SetFault(func(*http.Request) (*acmetest.Problem, error) { return nil, errAway })
		time.Sleep(acmetest.DefaultLifetime - time.Second)
		if p.serial(api).Cmp(first) != 0 {
			t.Error("another certificate")
		}
		lines := p.warnings()
		if n := len(p.authority.Requests()) - before; n == 0 || n > 8 || len(lines) == 0 || len(lines) > n {
			t.Errorf("%d requests for 2 names, log %q", n, lines)
		}
		if len(lines) == 0 {
			t.Fatal("no warning")
		}
		for _, want := range []string{"cannot reach authority.example", "no route to host", "-tls-acme"} {
			if !strings.Contains(lines[0], want) || !strings.Contains(p.state(api).Problem, want) {
				t.Errorf("log %s, state %q: want %q", lines[0], p.state(api).Problem, want)
			}
		}
		time.Sleep(time.Hour)
		if _, err := p.handshake(api); !expired(err) {
			t.Errorf("handshake with a certificate that has expired: %v", err)
		}
		p.authority.SetFault(nil)
		time.Sleep(time.Hour)
		if p.serial(api).Cmp(first) == 0 || p.state(api).Problem != "" || p.state(chat).Problem != "" {
			t.Errorf("after the authority's return: %+v", p.source.States())
		}
	})
}

// A start without the authority succeeds; the certificates come when it does.
func TestAuthorityAwayAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		p.authority.SetFault(func(*http.Request) (*acmetest.Problem, error) { return nil, errAway })
		p.start()
		p.warns("no route to host", "authority.example")
		p.refuses(api, "internal error")
		time.Sleep(12 * time.Hour)
		if n, lines := len(p.authority.Requests()), len(p.warnings()); n < 8 || n > 18 || lines > n {
			t.Errorf("%d requests and %d lines in 12 hours", n, lines)
		}
		p.authority.SetFault(nil)
		time.Sleep(2 * time.Hour)
		p.serial(api)
		p.serial(chat)
	})
}

// A client cannot make us ask the authority, whatever name it gives.
func TestHandshakesDoNotAskTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		p.reach(chat, &net.DNSError{Err: "no such host", Name: chat})
		p.start()
		before := len(p.authority.Requests())
		p.refuses("", "unrecognized name")
		for _, name := range []string{"other.example.org", "example.org", "localhost", "x." + api, "acme_account+key", "..%2f"} {
			p.refuses(name, "unrecognized name")
			p.refuses(name, "unrecognized name", "acme-tls/1")
		}
		p.refuses(chat, "internal error")
		p.refuses(api, "internal error", "acme-tls/1") // there is no challenge
		p.refuses(api, "no application protocol", "h2")
		if got := p.authority.Requests()[before:]; len(got) > 0 {
			t.Errorf("handshakes caused requests: %q", got)
		}
	})
}

// The time for which an authority limits requests is kept, for the name; other names wait an hour at most.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		var limited atomic.Bool
		p.authority.SetFault(func(r *http.Request) (*acmetest.Problem, error) {
			if r.URL.Path == "/order" && limited.CompareAndSwap(false, true) {
				return &acmetest.Problem{Status: http.StatusTooManyRequests, Type: "rateLimited", Detail: "too many certificates already issued", RetryAfter: "36000"}, nil
			}
			return nil, nil
		})
		p.start()
		p.warns("too many certificates already issued", "rateLimited", "status 429", "do not delete the data directory")
		before := len(p.authority.Requests())
		time.Sleep(59 * time.Minute)
		if got := p.authority.Requests()[before:]; len(got) > 0 {
			t.Errorf("requests in spite of the limit: %q", got)
		}
		time.Sleep(30 * time.Minute)
		p.serial(chat)
		time.Sleep(8 * time.Hour)
		p.refuses(api, "internal error")
		time.Sleep(2 * time.Hour)
		p.serial(api)
	})
}

// A name that does not lead here is logged with the reason and what to do, and does not keep another name waiting.
func TestNameThatLeadsElsewhere(t *testing.T) {
	f := func(unreached error, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			p := newPlace(t, api, chat)
			p.reach(api, unreached)
			p.start()
			p.serial(chat)
			p.warns(append(want, "name="+api)...)
			if problem := p.state(api).Problem; !strings.Contains(problem, want[0]) || p.state(chat).Problem != "" {
				t.Errorf("states: %+v", p.source.States())
			}
			time.Sleep(time.Hour)
			if n := p.requested("/challenge/") - 1; n < 2 || n > 5 {
				t.Errorf("%d failed challenges in an hour; Let's Encrypt allows 5", n)
			}
			for _, line := range p.warnings() {
				if !strings.Contains(line, "name="+api) || strings.Count(line, "challenge") > 1 {
					t.Errorf("log %s", line)
				}
			}
			p.reach(api, nil)
			time.Sleep(2 * time.Hour)
			p.serial(api)
			if p.state(api).Problem != "" {
				t.Errorf("state: %+v", p.state(api))
			}
		})
	}
	f(&net.DNSError{Err: "no such host", Name: api}, "no such host", "make an A or AAAA record for "+api)
	f(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "timeout", "port 443 must lead to -listen")
}

// If one challenge fails and the other one does not, nothing is wrong.
func TestOneChallengeSuffices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.reach(api, errAway)
		p.open()
		p.plain = p.source.HTTPHandler()
		p.run()
		first := p.serial(api)
		time.Sleep(acmetest.DefaultLifetime - time.Minute)
		if p.serial(api).Cmp(first) == 0 {
			t.Error("not renewed")
		}
		if got := p.warnings(); len(got) > 0 || p.state(api).Problem != "" {
			t.Errorf("log %q, state %+v", got, p.state(api))
		}
	})
}

// However many certificates cannot be renewed, the log gets at most one line a minute about the authority.
func TestLogOfManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for n := range 20 {
			names = append(names, fmt.Sprintf("host-%d.example.org", n))
		}
		p := newPlace(t, names...)
		p.start()
		p.authority.SetFault(func(*http.Request) (*acmetest.Problem, error) { return nil, errAway })
		time.Sleep(acmetest.DefaultLifetime)
		var last time.Time
		for _, line := range p.warnings() {
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(strings.Fields(line)[0], "time="))
			if err != nil {
				t.Fatal(err)
			}
			if at.Sub(last) < acmecert.LogPeriod {
				t.Errorf("%v after the line before: %s", at.Sub(last), line)
			}
			last = at
		}
		if n := len(p.warnings()); n < 2 {
			t.Errorf("%d warnings", n)
		}
	})
}

// A name that the authority refuses does not keep another one waiting.
func TestNameThatTheAuthorityRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api, chat)
		p.authority.SetFault(func(r *http.Request) (*acmetest.Problem, error) {
			if r.URL.Path == "/order" && p.requested("/order") == 1 {
				return &acmetest.Problem{Status: http.StatusBadRequest, Type: "rejectedIdentifier", Detail: "policy forbids the name"}, nil
			}
			return nil, nil
		})
		p.start()
		p.serial(chat)
		p.warns("policy forbids the name", "name="+api, "use another authority")
	})
}

// A certificate that cannot be written is in force all the same, and is not requested again.
func TestUnwritableDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.open()
		if err := os.MkdirAll(filepath.Join(p.config.CacheDir, "authority.example%2Fdirectory", api+".pem", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		p.run()
		p.serial(api)
		time.Sleep(renew - time.Minute)
		if n := p.requested("/finalize"); n != 1 {
			t.Errorf("%d certificates were requested", n)
		}
		p.warns("cannot keep", api+".pem", "file exists")
	})
}

// A damaged file is replaced.
func TestDamagedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.start()
		p.stop()
		for _, path := range p.cacheFiles() {
			if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.open()
		p.warns("a certificate of an earlier start has expired or cannot be read", "name="+api, api+".pem")
		p.run()
		p.serial(api)
		p.stop()
		p.open()
		p.serial(api)
	})
}

// The end of a process does not wait for the authority.
func TestEndDuringRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.authority.SetFault(func(r *http.Request) (*acmetest.Problem, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		p.start()
		began := time.Now()
		p.stop()
		if took := time.Since(began); took > 0 || len(p.warnings()) > 0 {
			t.Errorf("the end took %v, log %q", took, p.warnings())
		}
	})
}

// A test authority may be slow, or never answer: each request has an end.
func TestAuthorityThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, api)
		p.authority.SetFault(func(r *http.Request) (*acmetest.Problem, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		p.start()
		time.Sleep(time.Minute)
		p.warns("cannot reach authority.example", "context deadline exceeded")
	})
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	f := func(change func(*acmecert.Config), want string) {
		t.Helper()
		c := acmecert.Config{Domains: []string{api}, CacheDir: "x"}
		change(&c)
		if err := c.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	domain := func(name, want string) {
		t.Helper()
		f(func(c *acmecert.Config) { c.Domains = append(c.Domains, name) }, want)
	}
	domain("Chat.Example.org.", "")
	domain("bücher.example", "")
	domain("192.0.2.1", `flag -tls-domain "192.0.2.1": is an IP address`)
	domain("2001:db8::1", `flag -tls-domain "2001:db8::1": is an IP address`)
	domain("[2001:db8::1]", `flag -tls-domain "[2001:db8::1]": is an IP address`)
	domain("*.example.org", `flag -tls-domain "*.example.org": is a wildcard`)
	domain("https://api.example.org/", `flag -tls-domain "https://api.example.org/": must be a name alone`)
	domain("api.example.org:443", `flag -tls-domain "api.example.org:443": must be a name alone`)
	domain("localhost", `flag -tls-domain "localhost": is not the full name`)
	domain("", `flag -tls-domain "": is not the full name`)
	domain("a b.example.org", `flag -tls-domain "a b.example.org": is not the full name`)
	domain("a..example.org", `flag -tls-domain "a..example.org": is not the full name`)
	f(func(c *acmecert.Config) {
		for range 100 {
			c.Domains = append(c.Domains, api)
		}
	}, "flag -tls-domain: 101 names, at most 100")
	f(func(c *acmecert.Config) { c.CacheDir = "" }, "flag -tls-domain needs -data-dir")
	f(func(c *acmecert.Config) { c.Email = "ops@example.org" }, "")
	f(func(c *acmecert.Config) { c.Email = "ops" }, `flag -tls-email "ops": must be an e-mail address`)
	f(func(c *acmecert.Config) { c.Email = "Ops <ops@example.org>" }, `flag -tls-email "Ops <ops@example.org>": must be`)
	f(func(c *acmecert.Config) { c.Directory = "http://authority.example/directory" }, `flag -tls-acme "http://authority.example/directory": must be`)
	f(func(c *acmecert.Config) { c.Directory = "authority.example" }, `flag -tls-acme "authority.example": must be`)
	f(func(c *acmecert.Config) { c.HTTPListen = ":80" }, "")
	f(func(c *acmecert.Config) { c.HTTPListen = "80" }, `flag -tls-http-listen "80": must be host:port`)
	f(func(c *acmecert.Config) { *c = acmecert.Config{} }, "")
	f(func(c *acmecert.Config) { *c = acmecert.Config{Email: "ops@example.org"} }, "flag -tls-email \"ops@example.org\" has no effect without -tls-domain")
	f(func(c *acmecert.Config) { *c = acmecert.Config{Directory: "x"} }, "flag -tls-acme \"x\" has no effect without -tls-domain")
	f(func(c *acmecert.Config) { *c = acmecert.Config{HTTPListen: ":80"} }, "flag -tls-http-listen \":80\" has no effect without -tls-domain")
}
