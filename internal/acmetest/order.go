package acmetest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// newOrder makes an order for one name.
func (a *Authority) newOrder(w http.ResponseWriter, payload []byte) *Problem {
	var wanted struct {
		Identifiers []struct{ Type, Value string }
	}
	if err := json.Unmarshal(payload, &wanted); err != nil || len(wanted.Identifiers) != 1 {
		return malformed("want one name: %s", payload)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := &order{name: wanted.Identifiers[0].Value, status: "pending", token: rand.Text(), problems: map[string]*Problem{}}
	a.orders = append(a.orders, o)
	w.Header().Set("Location", fmt.Sprintf("%s/order/%d", a.url, len(a.orders)-1))
	return reply(w, http.StatusCreated, a.describe(len(a.orders)-1))
}

// handleOrder handles a request about an order, whose number is the second part of the path.
func (a *Authority) handleOrder(w http.ResponseWriter, path []string, payload []byte) *Problem {
	n, err := strconv.Atoi(slices.Concat(path, []string{"", ""})[1])
	a.mu.Lock()
	known := err == nil && n >= 0 && n < len(a.orders)
	a.mu.Unlock()
	if !known {
		return &Problem{Status: http.StatusNotFound, Type: "malformed", Detail: "no such order"}
	}
	if path[0] == "challenge" && len(path) == 3 {
		a.validate(n, path[2]) // without the lock: the client's server answers meanwhile
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.orders[n]
	switch path[0] {
	case "order":
	case "challenge":
		return reply(w, http.StatusOK, a.challenge(n, path[len(path)-1]))
	case "authorization":
		if bytes.Contains(payload, []byte(`"resource"`)) { // as strict authorities do
			return malformed("the request has a field resource, which ACME has no more")
		}
		return reply(w, http.StatusOK, a.authorization(n))
	case "finalize":
		if p := a.issue(o, payload); p != nil {
			return p
		}
	case "certificate":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(o.certificate)
		return nil
	default:
		return malformed("no such resource: %s", path[0])
	}
	w.Header().Set("Location", fmt.Sprintf("%s/order/%d", a.url, n))
	return reply(w, http.StatusOK, a.describe(n))
}

func (a *Authority) describe(n int) map[string]any {
	o := a.orders[n]
	return map[string]any{
		"status": o.status, "identifiers": []any{map[string]string{"type": "dns", "value": o.name}},
		"authorizations": []string{fmt.Sprintf("%s/authorization/%d", a.url, n)},
		"finalize":       fmt.Sprintf("%s/finalize/%d", a.url, n), "certificate": fmt.Sprintf("%s/certificate/%d", a.url, n),
	}
}

func (a *Authority) authorization(n int) map[string]any {
	o := a.orders[n]
	return map[string]any{
		"status": o.authorized(), "identifier": map[string]string{"type": "dns", "value": o.name},
		"challenges": []any{a.challenge(n, "http-01"), a.challenge(n, "tls-alpn-01")},
	}
}

func (a *Authority) challenge(n int, kind string) map[string]any {
	o := a.orders[n]
	c := map[string]any{"type": kind, "status": o.authorized(), "token": o.token, "url": fmt.Sprintf("%s/challenge/%d/%s", a.url, n, kind)}
	if p := o.problems[kind]; p != nil {
		c["error"] = p.document()
	}
	return c
}

// authorized returns the status of the authorization.
func (o *order) authorized() string {
	if o.status == "ready" {
		return "valid"
	}
	return o.status
}

// validate asks the server at the name of an order for the answer to a challenge.
func (a *Authority) validate(n int, kind string) {
	a.mu.Lock()
	o := a.orders[n]
	name, token, answer := o.name, o.token, o.token+"."+a.account.thumbprint
	a.mu.Unlock()
	var p *Problem
	switch kind {
	case "tls-alpn-01":
		p = a.validateTLS(name, answer)
	case "http-01":
		p = a.validateHTTP(name, token, answer)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o.status = "ready"
	if p != nil {
		o.status, o.problems[kind] = "invalid", p
	}
}

// connect connects to a port of a name.
func (a *Authority) connect(name string, port int) (net.Conn, *Problem) {
	c, err := a.dial(name, port)
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return nil, &Problem{Type: "dns", Detail: err.Error()}
	case err != nil:
		return nil, &Problem{Type: "connection", Detail: err.Error()}
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, nil
}

// idPeAcmeIdentifier is the extension of a certificate that answers tls-alpn-01 (RFC 8737, section 3).
var idPeAcmeIdentifier = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}

func (a *Authority) validateTLS(name, answer string) *Problem {
	raw, p := a.connect(name, 443)
	if p != nil {
		return p
	}
	defer raw.Close()
	c := tls.Client(raw, &tls.Config{ServerName: name, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		return &Problem{Type: "tls", Detail: err.Error()}
	}
	digest := sha256.Sum256([]byte(answer))
	want, err := asn1.Marshal(digest[:])
	if err != nil {
		return &Problem{Type: "serverInternal", Detail: err.Error()}
	}
	state := c.ConnectionState()
	leaf := state.PeerCertificates[0]
	if state.NegotiatedProtocol != "acme-tls/1" || !slices.Equal(leaf.DNSNames, []string{name}) {
		return &Problem{Type: "unauthorized", Detail: fmt.Sprintf("protocol %q, certificate for %q", state.NegotiatedProtocol, leaf.DNSNames)}
	}
	for _, e := range leaf.Extensions {
		if e.Id.Equal(idPeAcmeIdentifier) && e.Critical && bytes.Equal(e.Value, want) {
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 { // the server ends the connection
				return &Problem{Type: "tls", Detail: fmt.Sprintf("after the handshake: %q, %v", rest, err)}
			}
			return nil
		}
	}
	return &Problem{Type: "unauthorized", Detail: "the certificate has no right answer"}
}

func (a *Authority) validateHTTP(name, token, answer string) *Problem {
	raw, p := a.connect(name, 80)
	if p != nil {
		return p
	}
	defer raw.Close()
	_, _ = fmt.Fprintf(raw, "GET /.well-known/acme-challenge/%s HTTP/1.0\r\nHost: %s\r\n\r\n", token, name)
	got, err := io.ReadAll(raw)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.0 200 ") || !strings.HasSuffix(string(got), "\r\n\r\n"+answer) {
		return &Problem{Type: "unauthorized", Detail: fmt.Sprintf("%q, %v", got, err)}
	}
	return nil
}

// issue makes the certificate of an order that is ready.
func (a *Authority) issue(o *order, payload []byte) *Problem {
	var wanted struct{ CSR string }
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return malformed("%v", err)
	}
	der, err := base64.RawURLEncoding.DecodeString(wanted.CSR)
	if err != nil {
		return malformed("%v", err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil || request.CheckSignature() != nil || !slices.Equal(request.DNSNames, []string{o.name}) {
		return &Problem{Status: http.StatusBadRequest, Type: "badCSR", Detail: fmt.Sprint(err)}
	}
	if o.status != "ready" {
		return &Problem{Status: http.StatusForbidden, Type: "orderNotReady", Detail: o.status}
	}
	now := time.Now()
	o.certificate, err = a.CA.Certify(request.PublicKey, func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses, c.NotBefore, c.NotAfter = request.DNSNames, nil, now, now.Add(a.lifetime)
	})
	if err != nil {
		return &Problem{Status: http.StatusInternalServerError, Type: "serverInternal", Detail: err.Error()}
	}
	o.status = "valid"
	return nil
}
