package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
)

// etagOf returns the entity tag of a document: its revision in etcd, or a hash of its text in a file.
func etagOf(d etcd.Stored) string {
	if d.Revision > 0 {
		return fmt.Sprintf(`"%d"`, d.Revision)
	}
	return fmt.Sprintf(`"%x"`, sha256.Sum256(d.Value))[:17] + `"`
}

// conditions are the headers that make a request depend on the document as it is.
type conditions struct{ match, noneMatch string }

func (c *call) conditions() conditions {
	return conditions{strings.Join(c.Header.Values("If-Match"), ","), strings.Join(c.Header.Values("If-None-Match"), ",")}
}

// etagList is the form of If-Match and If-None-Match.
var etagList = regexp.MustCompile(`^[ \t]*(\*|(,[ \t]*)*(W/)?"[^"]*"([ \t]*,([ \t]*(W/)?"[^"]*")?)*)[ \t]*$`)

// checkConditions refuses conditions of a change that are not right, or that the route does not take: the change would be made without them.
func (r *route) checkConditions(request *http.Request) error {
	if r.method == http.MethodGet {
		return nil
	}
	takes := slices.ContainsFunc(r.header, func(p parameter) bool { return p.name == ifMatch.name })
	for _, name := range [...]string{ifMatch.name, ifNoneMatch.name} {
		values, there := request.Header[name]
		switch value := strings.Join(values, ","); {
		case !there:
		case !takes:
			return errBadRequest(name, name+": this operation takes no conditions; leave the header out")
		case !etagList.MatchString(value):
			return errBadRequest(name, fmt.Sprintf(`%s: %.100q: must be *, or ETags in quotes, such as "42"; leave the header out to change the document whatever it is`, name, value))
		}
	}
	return nil
}

// check returns an error unless the conditions hold for a document.
func (want conditions) check(key string, d etcd.Stored, there bool) error {
	etag := ""
	if there {
		etag = etagOf(d)
	}
	message, field := "", ""
	switch {
	case want.match != "" && !there:
		field, message = "If-Match", fmt.Sprintf("%s does not exist, and If-Match is %.100s", key, want.match)
	case want.match != "" && !matches(want.match, etag):
		field, message = "If-Match", fmt.Sprintf("%s has changed: its ETag is %s, and If-Match is %.100s; get it again, and repeat the change on that", key, etag, want.match)
	case want.noneMatch != "" && there && matches(want.noneMatch, etag):
		field, message = "If-None-Match", fmt.Sprintf("%s exists already: its ETag is %s, and If-None-Match is %.100s", key, etag, want.noneMatch)
	default:
		return nil
	}
	e := &Error{Status: http.StatusPreconditionFailed, Field: field, Message: message}
	if there {
		e.Header = map[string]string{"ETag": etag}
	}
	return e
}

// matches reports whether a list of entity tags has one of them, or is *.
func matches(list, etag string) bool {
	return strings.TrimSpace(list) == "*" ||
		slices.ContainsFunc(strings.Split(list, ","), func(one string) bool { return strings.TrimSpace(one) == etag })
}
