package api

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client calls an API for alice, unless its token is another one.
type client struct {
	handler http.Handler
	token   string
	log     *bytes.Buffer
}

// open makes an API and a client of it.
func open(t *testing.T, c Config) *client {
	t.Helper()
	logged := &bytes.Buffer{}
	c.Node, c.Logger = "edge-1", slog.New(slog.NewTextHandler(logged, nil))
	var err error
	if c.Tokens, err = OpenTokens(tokenFile(t, "alice "+aliceToken+"\nbob "+bobToken+"\n", 0o600), c.Logger); err != nil {
		t.Fatal(err)
	}
	return &client{handler: Handler(c), token: aliceToken, log: logged}
}

// response is what an API has answered.
type response struct {
	*http.Response
	body string
}

// do sends a request; headers are pairs.
func (c *client) do(method, path, body string, headers ...string) response {
	r := httptest.NewRequest(method, "http://127.0.0.1:9080"+path, strings.NewReader(body))
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	c.handler.ServeHTTP(recorder, r)
	answered := recorder.Result()
	defer answered.Body.Close()
	all, _ := io.ReadAll(answered.Body)
	return response{answered, string(all)}
}

// want checks the status of an answer, and that its body has some texts. An error has to be JSON with a message.
func (r response) want(t *testing.T, status int, texts ...string) response {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("got %d %s, want %d", r.StatusCode, r.body, status)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("%s lacks %q", r.body, text)
		}
	}
	if r.StatusCode < 400 {
		return r
	}
	var failed struct{ Error *Error }
	if err := json.Unmarshal([]byte(r.body), &failed); err != nil || failed.Error == nil || failed.Error.Message == "" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %q, want an error as JSON: %v", r.Header.Get("Content-Type"), r.body, err)
	}
	return r
}

// Only the description is for clients without a token. No token, good or bad, is logged.
func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	for _, path := range []string{"/api/v1/models", "/api/v1/nothing", "/api/v1/"} {
		for token, want := range map[string]string{"": "the header Authorization is missing", "wrong-0123456789abcdef": "not in the file that the flag -admin-tokens names",
			aliceToken + "x": "not in the file", "alice": "not in the file"} {
			c.token = token
			if got := c.do("GET", path, "").want(t, 401, want); !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: got %v", path, got.Header)
			}
		}
	}
	c.token = ""
	c.do("GET", "/api/v1/models", "", "Authorization", "Basic "+aliceToken).want(t, 401, "must be: Bearer TOKEN")
	c.do("GET", "/api/v1/models", "", "Authorization", "Bearer ").want(t, 401, "must be: Bearer TOKEN")
	c.do("GET", "/api/v1/openapi.json", "").want(t, 200, `"openapi": "3.1.0"`)
	if strings.Contains(c.log.String(), "0123456789") || strings.Count(c.log.String(), "\n") != 1 {
		t.Errorf("logged, where one line without a token was wanted:\n%s", c.log)
	}
}

// A path that does not exist is answered with those that do, and a wrong method with the right ones.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.do("GET", "/api/v1/modles/llama", "").want(t, 404, "/api/v1/models/<model>", "/api/v1/openapi.json")
	c.do("GET", "/api/v1/servers/ams/ams-1", "").want(t, 404)
	if got := c.do("POST", "/api/v1/openapi.json", "").want(t, 405, "does not take POST, but GET"); got.Header.Get("Allow") != "GET" {
		t.Errorf("got %v", got.Header)
	}
	c.do("GET", "/api/v1/openapi.json?x=1", "").want(t, 400, `the query has the parameter \"x\"`)
}

// A path with an empty name or with dots is refused, and not redirected; without a token, the token is asked for first.
func TestUncleanPaths(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	for _, path := range []string{"/api/v1/models/a//b", "/api/v1//models", "/api/v1/models/../keys", "/api/v1/models/./a"} {
		c.token = aliceToken
		c.do("PUT", path, "{}", jsonBody...).want(t, 400, "has an empty name")
		c.token = ""
		c.do("PUT", path, "{}", jsonBody...).want(t, 401)
	}
}

// A condition without an ETag is refused on each change, and any condition where none is checked.
func TestConditionsThatAreNotRight(t *testing.T) {
	t.Parallel()
	c := open(t, Config{NoStore: "it has no documents"})
	for _, value := range []string{"", " ", ",", "42", `"42`, `*, "42"`} {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			c.do("PUT", "/api/v1/models/a", "{}", "Content-Type", typeJSON, name, value).want(t, 400, `"field": "`+name+`"`, "ETags in quotes")
			c.do("DELETE", "/api/v1/models/a", "", name, value).want(t, 400, `"field": "`+name+`"`)
		}
	}
	c.do("POST", "/api/v1/keys", "{}", "Content-Type", typeJSON, "If-None-Match", "*").want(t, 400, "takes no conditions")
	c.do("POST", "/api/v1/keys", "{}", "Content-Type", typeJSON, "If-Match", "").want(t, 400, "takes no conditions")
	for _, value := range []string{"*", `"a"`, `W/"a" , "b"`, `, "a,b",`} {
		c.do("PUT", "/api/v1/models/a", "{}", "Content-Type", typeJSON, "If-Match", value).want(t, 409)
	}
}

// deadlines records the read deadlines of a connection.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// Only a client with a valid token has the long time of a route.
func TestLongDeadlinesNeedAToken(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	f := func(token string, want ...time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/api/v1/endpoints/ams/a/load", strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer "+token)
			d := &deadlines{ResponseWriter: httptest.NewRecorder()}
			start := time.Now()
			c.handler.ServeHTTP(d, r)
			var got []time.Duration
			for _, at := range d.set {
				got = append(got, at.Sub(start))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: got %v, want %v", token, got, want)
			}
		})
	}
	f("", requestTimeout)
	f("wrong-0123456789abcdef", requestTimeout)
	f(aliceToken, requestTimeout, maxLoading)
}
