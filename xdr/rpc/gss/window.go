package gss

// windowSize is how far behind the highest sequence number one may be. It is
// wide, since many connections may share a context and their calls are served
// in no order; a call that falls out of it costs a connection.
const windowSize = 2048

// window admits each sequence number of a context once (RFC 2203 section
// 5.3.3.1). The zero window has seen none.
type window struct {
	highest uint32
	seen    [windowSize / 32]uint32 // a bit each number, modulo the size
}

// admit says whether seq, which is authentic, is new and not too old.
func (w *window) admit(seq uint32) bool {
	if seq > w.highest {
		if seq-w.highest >= windowSize {
			clear(w.seen[:])
		} else {
			for n := w.highest + 1; n != seq; n++ {
				w.seen[n%windowSize/32] &^= 1 << (n % 32)
			}
		}
		w.highest = seq
		w.seen[seq%windowSize/32] |= 1 << (seq % 32)
		return true
	}
	word, bit := &w.seen[seq%windowSize/32], uint32(1)<<(seq%32)
	if w.highest-seq >= windowSize || *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
