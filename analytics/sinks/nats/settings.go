package nats

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"colonnade/analytics/sinks"
)

// settings say where to publish.
type settings struct {
	servers string // URLs, separated by commas
	user    string // empty = the secret is a token
	subject string
	tls     bool
	ca      string // PEM file; empty = those of the system
}

func parse(spec *sinks.Spec) (settings, error) {
	s := settings{subject: strings.Trim(spec.URL.Path, "/"), user: spec.URL.User.Username(), ca: spec.Param("ca", "")}
	if spec.URL.Host == "" {
		return s, fmt.Errorf("%s: the URL has no host; write for example %s", spec.URL, spec.Scheme.Example)
	}
	if s.subject == "" || strings.ContainsAny(s.subject, " \t/*>") || strings.Contains("."+s.subject+".", "..") {
		return s, fmt.Errorf("%s: the URL needs a subject as its path, without wildcards; write for example %s", spec.URL, spec.Scheme.Example)
	}
	switch value := spec.Param("tls", "false"); value {
	case "true", "false":
		s.tls = value == "true"
	default:
		return s, fmt.Errorf("tls=%s: must be true or false", value)
	}
	if s.ca != "" && !s.tls {
		return s, fmt.Errorf("ca=%s: without tls=true it has no effect; set both", s.ca)
	}
	var servers []string
	for host := range strings.SplitSeq(spec.URL.Host, ",") {
		servers = append(servers, "nats://"+host)
	}
	s.servers = strings.Join(servers, ",")
	return s, nil
}

// options returns how to connect, with the secret as it is now.
func (s settings) options(secret func() (string, error)) ([]nats.Option, error) {
	var options []nats.Option
	if s.tls {
		options = append(options, nats.Secure())
	}
	if s.ca != "" {
		options = append(options, nats.RootCAs(s.ca))
	}
	if secret == nil {
		if s.user != "" {
			options = append(options, nats.UserInfo(s.user, ""))
		}
		return options, nil
	}
	text, err := secret()
	switch {
	case err != nil:
		return nil, err
	case s.user != "":
		return append(options, nats.UserInfo(s.user, text)), nil
	}
	return append(options, nats.Token(text)), nil
}
