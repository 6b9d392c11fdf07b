package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"colonnade/fleet"
)

// The rules in the tags of a field. They hold for a value that is present, and for each element of a list or map.
//
//	oneof:"a b"      the texts that this version implements
//	range:"lo,hi"    bounds of a number, duration or size, both included
//	or:"auto"        a word that may stand in place of the number
//	is:"name"        the form of a text: see textRules
//	keys:"name"      the same for the keys of a map
//	inner:"name"     the same for the keys of the maps in a map
//	need:"yes"       required
//	own:"yes"        has no default: refused in the layers of the defaults document
//	secret:"yes"     the value is never shown
//
// A blank field names a field that documents must not have:
//
//	unsupported:"x"  the field x is refused by this version
//	instead:"…"      advice for the error

// checkRules checks a decoded value.
func checkRules(v reflect.Value, tag reflect.StructTag) *fieldError {
	switch v.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		if bounds := tag.Get("range"); bounds != "" {
			return checkRange(v, bounds)
		}
	case reflect.String:
		if accepted := tag.Get("oneof"); accepted != "" {
			return checkOneOf(v.String(), accepted)
		}
		return checkText(tag.Get("is"), v.String())
	}
	return nil
}

func checkOneOf(s, accepted string) *fieldError {
	words := strings.Fields(accepted)
	if slices.Contains(words, s) {
		return nil
	}
	if len(words) == 1 {
		return &fieldError{Reason: "must be " + words[0] + " in this version"}
	}
	return &fieldError{Reason: "must be one of " + strings.Join(words, ", ")}
}

func checkRange(v reflect.Value, bounds string) *fieldError {
	lo, hi, _ := strings.Cut(bounds, ",")
	below, above := compare(v, lo), compare(v, hi)
	switch {
	case below >= 0 && above <= 0:
		return nil
	case lo == hi:
		return &fieldError{Reason: "must be " + lo + " in this version"}
	case below < 0:
		return &fieldError{Reason: "must be at least " + lo}
	}
	return &fieldError{Reason: "must be at most " + hi}
}

// compare compares v with a bound of its type. NaN is less than any bound.
func compare(v reflect.Value, bound string) int {
	limit := reflect.New(v.Type())
	text := bound
	if _, ok := limit.Interface().(json.Unmarshaler); ok {
		text = strconv.Quote(bound)
	}
	if err := json.Unmarshal([]byte(text), limit.Interface()); err != nil {
		panic("fleet: bad bound " + bound) // a constant: every test of the field meets it
	}
	if v.CanInt() {
		return cmp.Compare(v.Int(), limit.Elem().Int())
	}
	return cmp.Compare(v.Float(), limit.Elem().Float())
}

// textRule is the form of a text, by the tags "is" and "keys".
type textRule struct {
	pattern *regexp.Regexp    // necessary; in the syntax that Go and JSON Schema have in common
	check   func(string) bool // nil where the pattern says everything
	reason  string            // with what is accepted
	hide    string            // a text with one of these characters is not shown: a password may stand beside it
}

const acceptedName = "a name must begin with a letter or digit, followed by at most 127 letters, digits and . _ : / @ + -"

var textRules = map[string]textRule{
	"name": {
		pattern: regexp.MustCompile("^" + namePattern + "$"),
		reason:  acceptedName,
	},
	"region": {
		pattern: regexp.MustCompile(`^(\*|` + namePattern + `)$`),
		reason:  `must be the name of a region, or "*" for every other region; ` + acceptedName,
	},
	"text": {
		pattern: regexp.MustCompile(`^.`),
		reason:  "must not be empty; leave the field out to have its default",
	},
	"path": {
		pattern: pathPattern,
		check:   cleanPath,
		reason:  `must be a path such as "/v1/models": a slash first, no spaces, no "#", "//" or ".."`,
	},
	"address": {
		pattern: regexp.MustCompile(`^[^ /@]+:[1-9][0-9]{0,4}$`),
		check:   validAddress,
		reason:  `must be host:port, such as "10.0.0.7:8443"`,
	},
	"kv_events": {
		pattern: regexp.MustCompile(`^tcp://[^ /?#@*]+:[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$`),
		check:   validKVEvents,
		reason: fmt.Sprintf(`must be tcp://HOST:PORT such as "tcp://10.0.0.7:5557", or tcp://HOST:FIRST-LAST with the ports of up to %d ranks; HOST is the one `+
			"by which colo servers reach the engine", fleet.MaxKVEventRanks),
		hide: "@?",
	},
	"credential": {
		pattern: regexp.MustCompile(`^(env:` + fleet.CredentialVariablePrefix + `[A-Za-z0-9_]+|file:[^ ]+)$`),
		check:   validCredential,
		reason: "must be env:" + fleet.CredentialVariablePrefix + "NAME, or file:PATH with a path below the -credentials-dir of the " +
			"colo server, without .. in it; the credential itself never stands in a document",
	},
	"header": {
		pattern: regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^`|~-]+$"), // no underscore: many servers take it for a hyphen
		check:   validHeader,
		reason: "must be the name of a header that may be forwarded; not one of the connection, of a body's framing, with a " +
			"credential, or of ours (x-colonnade-…)",
	},
	"origin": {
		pattern: regexp.MustCompile(`^(\*|[A-Za-z][A-Za-z0-9+.-]*://[^/?#@*]+)$`),
		check:   validOrigin,
		reason:  `must be an origin such as "https://app.example.com": a scheme, a host without "*" and perhaps a port; or "*" alone`,
	},
	"url": {
		pattern: regexp.MustCompile(`^[Hh][Tt][Tt][Pp][Ss]?://[^ ?#@]+$`),
		check:   validURL,
		reason: `must be a URL such as "http://10.0.0.7:8000": http or https, a host, perhaps a port and a path; no query, ` +
			"fragment, user or password",
		hide: "@?",
	},
	"capture_sink": {
		pattern: regexp.MustCompile(`^(file:/[^ ]+|[Hh][Tt][Tt][Pp][Ss]?://[^ ?#@]+)$`),
		check:   validCaptureSink,
		reason: "must be file:/PATH with an absolute path without .. in it, or an http or https URL without user, password, query and fragment, " +
			"such as file:/var/lib/colonnade/capture.jsonl",
		hide: "@?",
	},
	"keyset": {
		pattern: regexp.MustCompile(`^[Hh][Tt][Tt][Pp][Ss]?://[^ #@]+$`),
		check:   fleet.IsKeySetURL,
		reason:  "must be an https URL, without fragment, user and password; http only to a loopback address such as http://127.0.0.1:8080",
		hide:    "@",
	},
}

func (r textRule) accepts(s string) bool {
	return r.pattern.MatchString(s) && (r.check == nil || r.check(s))
}

// checkText checks a text by the name of a rule; without a name, any text is accepted.
func checkText(rule, s string) *fieldError {
	r, found := textRules[rule]
	switch {
	case !found || r.accepts(s):
		return nil
	case strings.ContainsAny(s, r.hide):
		return &fieldError{Value: "(not shown)", Reason: r.reason}
	}
	return &fieldError{Reason: r.reason}
}

func validName(s string) bool { return textRules["name"].accepts(s) }

var pathPattern = regexp.MustCompile(`^/[!"$-\[\]-~]*$`)

func cleanPath(s string) bool {
	path, _, _ := strings.Cut(s, "?")
	return !strings.Contains(s, "//") && !slices.Contains(strings.Split(path, "/"), "..")
}

// validCredential checks the path of a credential file. Whether it is below the directory, only the colo server knows.
func validCredential(s string) bool {
	path, isFile := strings.CutPrefix(s, "file:")
	return !isFile || fs.ValidPath(strings.TrimPrefix(path, "/"))
}

func validAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && validPort(port)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && port[0] != '0'
}

// reservedHeaders change how a message is read or for whom it speaks, or are set by nodes.
var reservedHeaders = []string{
	"accept-encoding", "api-key", "authorization", "connection", "cookie", "expect", "forwarded", "host", "http2-settings",
	"keep-alive", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "via", "x-api-key", "x-forwarded-for",
	"x-forwarded-host", "x-forwarded-proto", "x-request-id",
}

func validHeader(s string) bool {
	name := strings.ToLower(s)
	return !slices.Contains(reservedHeaders, name) &&
		!strings.HasPrefix(name, "x-colonnade-") && !strings.HasPrefix(name, "proxy-") && !strings.HasPrefix(name, "content-")
}

func validOrigin(s string) bool {
	if s == fleet.AnyOrigin {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && validHost(u) && strings.EqualFold(u.Scheme+"://"+u.Host, s)
}

func validHost(u *url.URL) bool {
	return u.Hostname() != "" && !strings.ContainsAny(u.Host, " ,;\\%\"<>^`{|}") && !strings.HasSuffix(u.Host, ":") &&
		(u.Port() == "" || validPort(u.Port()))
}
