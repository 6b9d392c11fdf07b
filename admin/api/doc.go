// Package api serves the admin API of a node: the documents of the fleet by GET, PUT and DELETE, and actions on nodes and endpoints.
//
// One table of routes ([route]) says everything about an operation: its method and path, its parameters, what it takes and what it answers,
// and the function that does it. The dispatcher and the OpenAPI document are both made from the table, so neither can have an operation
// that the other lacks.
//
// Each request but the one for the OpenAPI document needs a token of the file of tokens ([Tokens]), whose name is the author of the change
// in the history. Browsers do not send such a header by themselves, so a page of another origin can do nothing. Changes take the way of
// the command line: package change.
package api
