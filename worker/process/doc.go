// Package process runs one engine as a child: in a process group of its own, its output line by line, ended as a whole.
//
// The group is what makes Ctrl-C in a terminal reach the parent alone, which drains first, and what makes helper processes of an engine
// end with it. When the engine has ended by itself, the rest of its group is killed, since it holds the memory of GPUs; when it was
// asked to end, the rest has the same time for that. A process that leaves the group, as daemons do, is not followed.
//
// A parent that is killed leaves its engine running: an engine that serves must outlive the process beside it. Its output has no reader then,
// so the parent should ignore SIGPIPE, which the engine inherits; a program that takes a failed write for its end does not survive.
package process
