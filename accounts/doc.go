// Package accounts finds the account that sends a request, by its API key, and says which models it may use.
//
// A key is cn_<id>_<secret>. Its document keys/<id> holds the SHA-256 of the whole key, so that documents give no access.
// The secret has more than 128 random bits, for which a slow hash would add no protection. A key is looked up by its
// hash, which is compared in constant time: the time of a lookup does not depend on which keys exist.
//
// An open fleet also serves requests without a valid key, as the account "open", which may have a document like any
// other account. A valid key belongs to its own account there, too.
package accounts
