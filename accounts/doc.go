// Package accounts says who asks: it finds the account of an API key, and what that account may use.
//
// A key is cn_ID_SECRET. Documents hold only the SHA-256 of the whole key, so whoever reads them cannot ask in an
// account's name; a key is random enough (over 128 bits) that a slow hash would protect nothing more. A key is looked
// up by its hash, which is compared in constant time, so the time it takes tells nothing about the keys that exist.
//
// An open fleet serves everybody: who has no key, or none that is valid, is the account "open", which a document may
// describe like any other. A valid key is its own account's there, too.
package accounts
