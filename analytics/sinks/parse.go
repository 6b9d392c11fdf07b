package sinks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var errUnreadableSettings = errors.New("has settings that cannot be read: write them as ?a=1&b=2, and escape other characters by %XX")

// Parse reads the URL of a flag -sink. The error names the sink and the setting, and says what to do; it never repeats a password.
func Parse(raw string) (*Spec, error) {
	s, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", shown(raw), err)
	}
	return s, nil
}

// ParseDocument reads a document: a name, a URL whose query has the settings of its scheme, and the settings that all sinks have, by name.
func ParseDocument(name, raw string, settings map[string]string) (*Spec, error) {
	s, err := parseURL(raw)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for setting := range s.Params {
		if slices.Contains(commonSettings(), setting) {
			return nil, fmt.Errorf("url: the setting %s is a field of the document, beside url", setting)
		}
	}
	if s.Scheme.Heavy {
		return nil, fmt.Errorf("url: nodes cannot open sinks of the scheme %s, whose client is large: run `colonnade ship -data-dir DIR -sink %s:…` beside each node instead", s.Scheme.Name, s.Scheme.Name)
	}
	if s.Scheme.Name == "file" && !filepath.IsLocal(s.URL.Path) {
		return nil, errors.New("url: a file in a document is relative, such as file:events.jsonl, and stands below DATA-DIR/sinks of each node; for any other file, start nodes with the flag -sink")
	}
	for setting, value := range settings {
		s.Params[setting] = value
	}
	s.Params["name"] = name
	return s, s.takeSettings()
}

func parse(raw string) (*Spec, error) {
	s, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	return s, s.takeSettings()
}

// NameOf returns what to call the sink of a URL that nodes refuse: the name that it would have, as far as that can be read, or else the URL
// without settings and passwords.
func NameOf(raw string) string {
	s, err := parseURL(raw)
	if err != nil {
		text := shown(raw)
		return cmp.Or(text[1:len(text)-1], "-")
	}
	if name := s.Param("name", ""); validName.MatchString(name) {
		return name
	}
	return s.defaultName()
}

// shown returns a URL in quotes for error texts, also one that cannot be read: nothing of it that may be a password, a token or a setting.
func shown(raw string) string {
	name, rest, isURL := strings.Cut(raw, ":")
	scheme := schemeOf(name)
	if scheme == nil || scheme.secretPath {
		rest = withoutPath(rest)
	}
	if scheme == nil || !scheme.opaque {
		rest = withoutPassword(rest)
	}
	short, _, _ := strings.Cut(rest, "?")
	if isURL {
		short = name + ":" + short
	} else {
		short, _, _ = strings.Cut(name, "?")
	}
	if len(short) > 100 {
		short = short[:100] + "…"
	}
	return fmt.Sprintf("%q", short)
}

var notAPort = regexp.MustCompile(`:[^:/,?\]]*[^:/,?\]0-9][^:/,?\]]*`)

// withoutPassword returns what stands behind the scheme of a URL. A password may have a ?, and a setting an @: of these, nothing is left.
func withoutPassword(rest string) string {
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes = "//"
	}
	at := strings.LastIndexByte(rest, '@')
	switch {
	case at >= 0 && strings.Contains(rest[:at], "?"):
		return slashes + "…"
	case at >= 0:
		return slashes + "…" + rest[at:]
	}
	return notAPort.ReplaceAllString(rest, ":…") // perhaps a password without the host behind it
}

// withoutPath returns what stands behind the scheme of a URL, without its path, which may hold a token. An @ may stand in either, and then
// nothing is left.
func withoutPath(rest string) string {
	authority, ok := strings.CutPrefix(rest, "//")
	host, path, hasPath := strings.Cut(authority, "/")
	switch {
	case !ok || !hasPath || path == "" || path[0] == '?':
		return rest
	case strings.Contains(path, "@"):
		return "//…"
	}
	return "//" + host + "/…"
}

// parseURL reads a URL with all its settings in Params.
func parseURL(raw string) (*Spec, error) {
	name, rest, ok := strings.Cut(raw, ":")
	if !ok || name == "" {
		return nil, errors.New("is not a URL: begin with the scheme of the sink, such as " + exampleOf("file"))
	}
	scheme := schemeOf(name)
	if scheme == nil {
		return nil, fmt.Errorf("unknown scheme %q: use one of %s", name, schemeNames())
	}
	hosts, single := severalHosts(rest)
	u, err := url.Parse(name + ":" + single)
	if err != nil {
		return nil, fmt.Errorf("is not a valid URL: write it like %s", scheme.Example)
	}
	if hosts != "" {
		u.Host = hosts
	}
	if u.Fragment != "" {
		return nil, errors.New("has a fragment (#…), which no sink has: write # as %23")
	}
	if _, has := u.User.Password(); has {
		return nil, errors.New("has a password, which logs and lists of processes would show: use credential=env:NAME or credential=file:PATH")
	}
	s := &Spec{Scheme: scheme, URL: u, Params: map[string]string{}}
	if err := s.checkAddress(); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errUnreadableSettings
	}
	for setting, values := range query {
		if strings.Contains(setting, "@") { // of a password with a ?
			return nil, errUnreadableSettings
		}
		if len(values) > 1 {
			return nil, fmt.Errorf("has the setting %s twice", setting)
		}
		s.Params[setting] = values[0]
	}
	u.RawQuery = ""
	return s, nil
}

// severalHosts splits hosts with ports, separated by commas, from a URL, since package url takes one host only. It returns them, and the URL with
// the last one.
func severalHosts(rest string) (hosts, single string) {
	authority, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return "", rest
	}
	end := strings.IndexAny(authority, "/?#")
	if end < 0 {
		end = len(authority)
	}
	authority, path := authority[:end], authority[end:]
	at := strings.LastIndexByte(authority, '@') + 1
	hosts = authority[at:]
	last := strings.LastIndexByte(hosts, ',')
	if last < 0 {
		return "", rest
	}
	return hosts, "//" + authority[:at] + hosts[last+1:] + path
}

// checkAddress refuses a URL without what its scheme needs.
func (s *Spec) checkAddress() error {
	u := s.URL
	if !s.Scheme.opaque {
		if u.Hostname() == "" || u.Opaque != "" {
			return fmt.Errorf("lacks a host: write it like %s", s.Scheme.Example)
		}
		if (s.Scheme.Name == "http" || s.Scheme.Name == "https") && u.User != nil {
			return errors.New("has a user: use auth=basic and credential=env:NAME, where NAME holds USER:PASSWORD")
		}
		return nil
	}
	if u.Opaque != "" {
		path, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return fmt.Errorf("is not a valid URL: write it like %s", s.Scheme.Example)
		}
		u.Path, u.Opaque = path, ""
	}
	if u.Host != "" || u.Path == "" || strings.HasSuffix(u.Path, "/") || strings.ContainsRune(u.Path, 0) {
		return fmt.Errorf("must name a file by its path, like %s", s.Scheme.Example)
	}
	return nil
}

var (
	validName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// defaultName returns a name by where the sink is. The path of a receiver may hold a token, and a name stands in metrics and logs.
func (s *Spec) defaultName() string {
	path := s.URL.Path
	if s.Scheme.secretPath && strings.Trim(path, "/") != "" {
		sum := sha256.Sum256([]byte(path))
		path = "-" + hex.EncodeToString(sum[:4])
	}
	name := s.Scheme.Name + "-" + notInNames.ReplaceAllString(strings.Trim(s.URL.Host+path, "/"), "-")
	return strings.TrimRight(name[:min(len(name), 63)], "-.")
}
