// Package nvml reads the GPUs of this machine by NVIDIA's management library. Only the program colonnade-gpus links it.
//
// The library comes with the driver, and is loaded when Open is called. A machine without it is an error of Open. A call of a function that
// the library does not have, or of any function before the library is there, ends the process: the dynamic linker finds no address for it.
// So each function that some driver lacks is looked up first.
//
// A build without cgo, or for another system than Linux, has an Open that always fails.
package nvml
