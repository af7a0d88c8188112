// Package compound is the engine that both servers share: it takes one
// COMPOUND (RFC 8881 section 16.2) from the RPC layer, admits it through its
// session, runs its operations in order by the rows of the role's Table, and
// sends callbacks the other way.
//
// Its nouns: an Op is one row (name, flags, bound on the reply, function); a
// Table is a role; a Call is one COMPOUND under way, with its current and
// saved filehandle and stateid; a Server holds the Table and the sessions; a
// link is a connection as the Server knows it. What a session admitted goes on
// for a while when its connection breaks, for the client asks again elsewhere.
//
// The engine knows rules, not operations. It answers for the order of
// operations (SEQUENCE first, session operations alone), for the session's
// limits on requests and replies, for exactly-once execution, for the minor
// version, and for the presence of filehandles. Adding an operation touches
// one row and one file of a role, never this package.
package compound
