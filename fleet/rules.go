package fleet

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The rules that a field's tags state. They hold for a value that is present; of lists and maps, for each element.
//
//	oneof:"a b"      the texts that this version implements
//	range:"lo,hi"    bounds of a number, duration or size, both included
//	or:"auto"        a word that may stand in place of the number
//	is:"name"        what a text must look like: see checkWord
//	keys:"name"      the same for the keys of a map
//	need:"yes"       required
//	own:"yes"        has no default: refused in the layers of the defaults document
//	secret:"yes"     the value is never shown
//
// A blank field names one that documents may not have although they might expect it:
//
//	unsupported:"x"  the field x is refused by this version
//	instead:"…"      what to do instead, in the error

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
		return checkWord(tag.Get("is"), v.String())
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

// compare returns the order of v and a bound of v's type. NaN comes before everything.
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

// checkWord checks a text by the name of a rule; no rule accepts any text.
func checkWord(rule, s string) *fieldError {
	switch rule {
	case "name":
		return shape(validName(s), acceptedName)
	case "word":
		return shape(s != "", "must not be empty; leave the field out to have its default")
	case "path":
		return shape(validPath(s), `must be a path such as "/v1/models": a slash first, no spaces, no "#", "//" or ".."`)
	case "address":
		return shape(validAddress(s), `must be host:port, such as "10.0.0.7:8443"`)
	case "credential":
		return shape(validCredential(s), "must be env:NAME or file:PATH; the credential itself never stands in a document")
	case "header":
		return shape(validHeader(s), "must be the name of a header that may be forwarded; not one of the connection, of a "+
			"body's framing, with a credential, or of ours (x-colonnade-…)")
	case "origin":
		return shape(validOrigin(s), `must be an origin such as "https://app.example.com": a scheme, a host and perhaps a port`)
	case "url":
		return checkURL(s)
	}
	return nil
}

func validPath(s string) bool {
	if !strings.HasPrefix(s, "/") || strings.Contains(s, "//") || strings.ContainsAny(s, `#\`) {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	path, _, _ := strings.Cut(s, "?")
	return !slices.Contains(strings.Split(path, "/"), "..")
}

func validAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, " /@") {
		return false
	}
	return validPort(port)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && port[0] != '0'
}

func validCredential(s string) bool {
	where, what, _ := strings.Cut(s, ":")
	return what != "" && (where == "env" || where == "file") && !strings.ContainsRune(s, ' ')
}

// validHeader refuses what would change how a message is read, who it speaks for, or what a node believes.
func validHeader(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte("!#$%&'*+-.^`|~", s[i]) < 0 {
			return false // an underscore, too: many servers take it for a hyphen
		}
	}
	name := strings.ToLower(s)
	return name != "" && !slices.Contains(ownHeaders(), name) &&
		!strings.HasPrefix(name, "x-colonnade-") && !strings.HasPrefix(name, "proxy-") && !strings.HasPrefix(name, "content-")
}

func ownHeaders() []string {
	return []string{"accept-encoding", "authorization", "connection", "cookie", "expect", "forwarded", "host", "http2-settings",
		"keep-alive", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "via", "x-api-key", "x-forwarded-for",
		"x-forwarded-host", "x-forwarded-proto", "x-request-id", "api-key"}
}

func validOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && validHost(u) && u.Scheme+"://"+u.Host == s
}

func validHost(u *url.URL) bool {
	return u.Hostname() != "" && !strings.ContainsAny(u.Host, " ,;\\%\"<>^`{|}") && !strings.HasSuffix(u.Host, ":") &&
		(u.Port() == "" || validPort(u.Port()))
}
