// Package balance has the end-to-end tests of the choice of the endpoint: the requests of a session go to one engine, and so do the turns of
// a conversation, and an adapter is loaded by one engine (adapters); only accounts of operators learn which engine it was, and why (affinity).
package balance
