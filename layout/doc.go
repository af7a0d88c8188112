// Package layout is the contract between client, metadata server and data
// servers: what each of the three must understand in the same way.
//
// Its nouns: a Range is a run of bytes of a file. A file's bytes are dealt out
// over the data servers (each named by a DSID) by a Stripe; what one data
// server holds of one file is an Object, whose offsets are the file's own
// (sparse packing, RFC 8881 section 13.4.4). A Device is an ordered list of
// data servers with their addresses, and its id never stands for anything
// else. A Layout is what LAYOUTGET answers: a device, a stripe and a
// filehandle for each data server. A Driver turns layouts and devices into the
// bytes of one layout type.
//
// A data server's filehandle is a Capability: it says which client may do what
// to which object, so that a data server needs no word from the metadata
// server to serve it. A metadata server's filehandle is a Handle. Both are
// signed by a Keyring, and what the Keyring did not sign does not open.
//
// Everything here is a pure function of its arguments, and every type but
// Device and Layout is safe for concurrent use once made.
package layout
