package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"colonnade/change"
	"colonnade/fleet"
)

const (
	requestTimeout = 30 * time.Second // for the body of a request, and for what it asks for
	logInterval    = time.Minute      // between two log lines about requests without a good token
)

// Config is what the API works with. Its functions may be called by several goroutines at once.
type Config struct {
	Node   string  // name, for the history
	Tokens *Tokens // of operators; nil = there are none, and only registrations are taken
	Logger *slog.Logger

	Documents *change.Documents // the store; its author is that of each request. nil: the process has none
	NoStore   string            // without Documents: why there are none, and what to do
	Actions   Actions           // a nil function: the process cannot do that
	Registrar Registrar

	// CheckConfirm is that of [change.Plan], which leaves out nodes that do not answer if ignoreUnreachable is set, and is an error if there
	// are some otherwise; nil for files.
	CheckConfirm func(ctx context.Context, deleted []string, ignoreUnreachable bool) error
}

type api struct {
	Config
	mux     *http.ServeMux
	table   []route
	openAPI func() ([]byte, error) // made when it is asked for: that takes a sixth of the start of a node
	stubs   map[string]bool        // patterns of the mux that are no route
	refused rate.Sometimes
}

// Handler returns the API. Its paths begin with /api/v1/.
func Handler(c Config) http.Handler {
	a := &api{Config: c, mux: http.NewServeMux(), stubs: map[string]bool{}, refused: rate.Sometimes{Interval: logInterval}}
	a.table = a.routes()
	for i := range a.table {
		r := &a.table[i]
		a.mux.HandleFunc(r.pattern(), func(w http.ResponseWriter, request *http.Request) { a.serve(w, request, r) })
	}
	a.addStubs()
	a.mux.HandleFunc(base+"/", func(w http.ResponseWriter, request *http.Request) { a.serve(w, request, nil) })
	a.openAPI = sync.OnceValues(a.describe)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if isUnclean(request) { // the mux would redirect it, and without a token
			a.serve(w, request, nil)
			return
		}
		a.mux.ServeHTTP(w, request)
	})
}

// isUnclean reports whether the path of a request has an empty name before its end, or one that is . or .. as it is written.
func isUnclean(request *http.Request) bool {
	names := strings.Split(strings.TrimPrefix(request.URL.EscapedPath(), "/"), "/")
	last := len(names) - 1
	return slices.Contains(names, ".") || slices.Contains(names, "..") || slices.Contains(names[:last], "")
}

// addStubs keeps the mux from redirecting a path without the name of a document to the same path with a slash at its end.
func (a *api) addStubs() {
	for _, r := range a.table {
		folder := r.method + " " + base + r.path[:strings.LastIndexByte(r.path, '/')]
		if r.slashes && !slices.ContainsFunc(a.table, func(other route) bool { return other.pattern() == folder }) {
			a.stubs[folder] = true
		}
	}
	for pattern := range a.stubs {
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, request *http.Request) { a.serve(w, request, nil) })
	}
}

// call is one request of an operation.
type call struct {
	*http.Request
	user   string        // name of the token or of the API key; empty for a route without
	apiKey *fleet.APIKey // with the role worker; nil = an operator, or a route without
	most   int           // bytes of the body
}

// answer is what an operation returns; status 0 is 200. body is written as JSON unless its text is there already.
type answer struct {
	status int
	header map[string]string
	body   any
	text   []byte
	media  string // type of text
}

// serve carries out a request of one route, or of none. A client without a valid token has a short time for its body, whatever the route.
func (a *api) serve(w http.ResponseWriter, request *http.Request, r *route) {
	limit, connection := requestTimeout, http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(limit)) // not in tests without a connection
	c := &call{Request: request, most: maxBody}
	if r != nil && r.maxBody > 0 {
		c.most = r.maxBody
	}
	var done *answer
	err := a.admit(c, r)
	if err == nil {
		if r != nil && r.timeout > 0 {
			limit = r.timeout
			_ = connection.SetReadDeadline(time.Now().Add(limit)) // the end of it would cancel the request
		}
		ctx, cancel := context.WithTimeout(request.Context(), limit)
		defer cancel()
		c.Request = request.WithContext(ctx)
		done, err = a.answer(c, r)
	}
	if err != nil {
		failed := asError(err)
		done = &answer{status: failed.Status, header: failed.Header, body: map[string]*Error{"error": failed}}
	}
	write(w, done)
}

// admit authenticates a request, unless its route is open.
func (a *api) admit(c *call, r *route) error {
	if r != nil && r.open {
		return nil
	}
	return a.authenticate(c, r)
}

func (a *api) answer(c *call, r *route) (*answer, error) {
	if r == nil {
		return nil, a.noRoute(c.Request)
	}
	if err := r.checkQuery(c.Request); err != nil {
		return nil, err
	}
	if err := r.checkConditions(c.Request); err != nil {
		return nil, err
	}
	return r.handle(c)
}

// authenticate sets the user of a request, or returns why it has none, or why the one that it has may not ask for its route.
func (a *api) authenticate(c *call, r *route) error {
	message := "the header Authorization is missing: send Authorization: Bearer TOKEN, with a token of the file that the flag -admin-tokens names"
	if a.Tokens == nil {
		message = "the header Authorization is missing: send Authorization: Bearer KEY, with an API key that has the role worker; this node has no file of tokens (flag -admin-tokens)"
	}
	scheme, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	switch {
	case scheme == "":
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		message = "the header Authorization must be: Bearer TOKEN"
	default:
		if name, ok := a.Tokens.user(token); ok {
			c.user = name
			return nil
		}
		if known, err := a.authorizeWorker(c, token, r); known {
			return err
		}
		message = a.unknownToken()
	}
	if a.Tokens == nil && (r == nil || !r.workers) {
		return errOnlyRegistrations
	}
	a.refused.Do(func() {
		a.Logger.Warn("admin API: request without a valid token; the next ones are not logged for a minute", "client", c.RemoteAddr, "error", message)
	})
	return &Error{Status: http.StatusUnauthorized, Message: message, Header: map[string]string{"WWW-Authenticate": `Bearer realm="colonnade admin API"`}}
}

var errOnlyRegistrations = &Error{Status: http.StatusNotFound,
	Message: "there is no admin API here but for the registration of engines: the rest is here if the node was started with -admin-tokens FILE"}

// unknownToken says where a token should have been found.
func (a *api) unknownToken() string {
	switch {
	case a.Registrar.Key == nil:
		return "this token is not in the file that the flag -admin-tokens names"
	case a.Tokens == nil:
		return "this is no API key in force; engines are registered with one that colonnade keys create -role worker makes"
	}
	return "this token is not in the file that the flag -admin-tokens names, and no API key in force"
}

// noRoute says what is wrong with a request that no route is for.
func (a *api) noRoute(r *http.Request) *Error {
	if isUnclean(r) {
		return errBadRequest("", fmt.Sprintf("the path %.200q has an empty name, or one that is . or ..: names of documents have none of these; write slashes within a name as %%2F", r.URL.Path))
	}
	var allowed []string
	for _, method := range methods {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := a.mux.Handler(other); strings.HasPrefix(pattern, method+" ") && !a.stubs[pattern] {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		return &Error{Status: http.StatusMethodNotAllowed, Header: map[string]string{"Allow": strings.Join(allowed, ", ")},
			Message: fmt.Sprintf("%s does not take %s, but %s", r.URL.Path, r.Method, strings.Join(allowed, ", "))}
	}
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("there is nothing at %.200q: %s", r.URL.Path, kindsText())}
}

// checkQuery refuses parameters that the route does not have: a mistyped dry_run would change documents.
func (r *route) checkQuery(request *http.Request) error {
	known := map[string]bool{}
	var list []string
	for _, p := range r.query {
		known[p.name], list = true, append(list, p.name)
	}
	for name := range request.URL.Query() {
		switch {
		case known[name]:
		case len(list) == 0:
			return errBadRequest(name, fmt.Sprintf("the query has the parameter %.100q, and this operation takes none", name))
		default:
			return errBadRequest(name, fmt.Sprintf("the query has the unknown parameter %.100q; known ones: %s", name, strings.Join(list, ", ")))
		}
	}
	return nil
}

// flag returns a parameter of the query that is true or false.
func (c *call) flag(name string) (bool, error) {
	switch value := c.URL.Query().Get(name); {
	case value == "true":
		return true, nil
	case value == "false", !c.URL.Query().Has(name):
		return false, nil
	default:
		return false, errBadRequest(name, fmt.Sprintf("%s=%.100q: must be true or false", name, value))
	}
}

// number returns a parameter of the query that is a whole number within bounds.
func (c *call) number(name string, absent, least, most int) (int, error) {
	if !c.URL.Query().Has(name) {
		return absent, nil
	}
	value := c.URL.Query().Get(name)
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, errBadRequest(name, fmt.Sprintf("%s=%.100q: must be a number from %d to %d", name, value, least, most))
	}
	return n, nil
}

// write sends an answer. No cache may keep it: it may be a new API key.
func write(w http.ResponseWriter, done *answer) {
	media, body := done.media, done.text
	if done.body != nil {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(done.body); err != nil {
			panic("api: " + err.Error()) // values of this package and of documents, which all can be written
		}
		media, body = typeJSON, out.Bytes()
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	for name, value := range done.header {
		h.Set(name, value)
	}
	if media != "" {
		h.Set("Content-Type", media)
	}
	w.WriteHeader(max(done.status, http.StatusOK))
	_, _ = w.Write(body) // an error means that the reader has gone
}
