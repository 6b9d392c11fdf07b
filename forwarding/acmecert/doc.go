// Package acmecert obtains, keeps and renews the certificates of a listener by ACME (RFC 8555), with the challenges tls-alpn-01
// (RFC 8737) and, if it has a listener for plain HTTP, http-01.
//
// An [autocert.Manager] speaks the protocol and plans renewals. By itself, it would ask the authority within handshakes, which clients
// cause, and return neither why a name was refused nor that a renewal failed. So three parts stand around it:
//
//	handshake ──→ certificates in force ←── store ←── autocert.Manager ──→ caTransport ──→ the authority's server
//	                                                        ↑                   │ reasons, Retry-After
//	                                                     Source.Run ←───────────┘
//
// A handshake reads the certificate in force from memory and never reaches the manager, except to answer a challenge of one of
// the names. The store is the manager's cache: a certificate that the manager puts there is in force from then on, and the one
// before it until then. The caTransport, an [http.RoundTripper], sends the manager's requests to the certificate authority. It reads
// the reasons in the answers, and sends nothing before the time that the authority has asked for, for up to an hour. Only [Source.Run]
// has certificates made.
//
// A name without a certificate is requested again after 2 minutes, then after three times as long each time, up to about an hour. The
// manager renews a certificate when a third of its validity is left, at most 30 days, and tries again after 30 to 60 minutes.
package acmecert
