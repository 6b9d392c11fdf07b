// Package jwt finds the account that sends a request by a JWT of a trusted issuer, in place of an API key.
//
// A document issuers/<name> names the issuer, its key set and what its tokens may say. [Verifier.Identify] never waits for a network:
// [Verifier.Run] fetches the key sets, every hour, and at most once a minute when a token names a key that is not there. While an issuer
// does not answer, or answers with something else than keys, its last good key set stays in force. It is also kept in a file, for a process that
// starts while the issuer is away, unless it was fetched more than a day before.
//
// The checks are strict. A token has at most 8 KiB, and is signed with RS256 or ES256 by a key of the issuer that it names: the key with
// its kid, or the only key if it has none. The key, not the token, says which of the two algorithms is meant. The claims iss, aud and exp
// are required, nbf and iat are checked if they are there, with one minute for clocks that differ. A header crit is refused, since no
// extension is known. Fields of a header that say where to find a key are ignored.
//
// A token narrows what its account may do, and never widens it: see [fleet.IssuerClaims]. Only an account with a document can be named,
// and a token never has the rights of an admin account.
//
// A verified token is remembered by its SHA-256, so that each further request costs a hash and a lookup. At most 16384 tokens are
// remembered, the least recently used are forgotten first. A token is verified again once its issuer's document or key set, or its
// account's document, has changed.
package jwt
