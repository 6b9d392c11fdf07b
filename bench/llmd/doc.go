// Command llmd is llm-d's choice of an endpoint, for the simulation of package bench/balance: the scheduler and the scorers of the Gateway API
// inference extension, at the version that github.com/llm-d/llm-d-inference-scheduler v0.4.0 is built with, configured as by the guide
// "inference-scheduling" of llm-d (default-plugins.yaml).
//
// It reads calls from standard input, in the format of encoding/gob. A call asks for the endpoint of a prompt, and is answered on standard
// output, or says that the request was sent there, which llm-d notes in its index of prefixes before it reads the next call. The types are those of
// bench/balance/llmd.go: gob goes by the names of fields, so that the two modules need not depend on each other.
//
// It is a module of its own, so that no other has the modules that llm-d needs.
package main
