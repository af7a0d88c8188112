package sim

import (
	"cmp"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// wire is the network: every connection of the world.
type wire struct {
	w *world

	mu    sync.Mutex
	ends  map[*end]bool
	cut   map[[2]string]bool // pairs of nodes that do not hear each other
	dials uint64
	calm  bool // nothing goes wrong any more
}

func newWire(w *world) *wire {
	return &wire{w: w, ends: map[*end]bool{}, cut: map[[2]string]bool{}}
}

func pair(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

// split keeps two nodes apart, or ends that.
func (n *wire) split(a, b string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if on {
		n.cut[pair(a, b)] = true
	} else {
		delete(n.cut, pair(a, b))
	}
}

func (n *wire) apart(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[pair(a, b)]
}

// heal ends everything that goes wrong on the wire.
func (n *wire) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	n.calm = true
}

// dial makes a connection between two nodes.
func (n *wire) dial(from, to string, local, remote netip.AddrPort) (near, far *end) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	near = &end{n: n, dial: n.dials, node: from, addr: local, rnd: n.w.dice(from, "to", to, n.dials)}
	far = &end{n: n, dial: n.dials, node: to, addr: remote, rnd: n.w.dice(to, "to", from, n.dials)}
	near.peer, far.peer = far, near
	near.cond.L, far.cond.L = &near.mu, &far.mu
	n.ends[near], n.ends[far] = true, true
	return near, far
}

// down ends every connection of a node, as its death does: what it sent is
// still on its way, what was sent to it goes nowhere.
func (n *wire) down(node string) {
	n.mu.Lock()
	var mine []*end
	for e := range n.ends {
		if e.node == node {
			mine = append(mine, e)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(mine, func(a, b *end) int { return cmp.Compare(a.dial, b.dial) })
	for _, e := range mine {
		e.Close()
	}
}

// end is one end of a connection. It is a net.Conn that carries whole records.
type end struct {
	n    *wire
	dial uint64
	node string
	addr netip.AddrPort
	peer *end

	out  []byte // written, not a whole record yet; the writer's
	rnd  *rand.Rand
	mu   sync.Mutex
	cond sync.Cond
	in   []byte
	gone bool // closed here
	eof  bool // the peer closed
}

// Write takes records to the wire.
func (e *end) Write(p []byte) (int, error) {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone {
		return 0, net.ErrClosed
	}
	e.out = append(e.out, p...)
	for len(e.out) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(e.out)&^(1<<31))
		if len(e.out) < n {
			break
		}
		e.send(append([]byte(nil), e.out[:n]...))
		e.out = append(e.out[:0], e.out[n:]...)
	}
	return len(p), nil
}

// send decides what becomes of a record.
func (e *end) send(record []byte) {
	copies := 1
	calm := e.isCalm()
	switch x := e.rnd.Float64(); {
	case calm:
	case x < 0.01:
		copies = 0
	case x < 0.04:
		copies = 2
	case x < 0.042:
		copies = 3
	}
	for range copies {
		time.AfterFunc(e.delay(calm), func() { e.peer.arrive(e.node, record) })
	}
}

func (e *end) isCalm() bool {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	return e.n.calm
}

// delay is how long a record takes. No two are the same, so that the order of
// what happens is the seed's.
func (e *end) delay(calm bool) time.Duration {
	d := 100*time.Microsecond + time.Duration(e.rnd.Int64N(int64(2*time.Millisecond)))
	switch x := e.rnd.Float64(); {
	case calm:
	case x < 0.005:
		d += time.Duration(e.rnd.Int64N(int64(8 * time.Second)))
	case x < 0.03:
		d += time.Duration(e.rnd.Int64N(int64(time.Second)))
	}
	return d
}

// arrive is a record's end, if nothing is between the nodes.
func (e *end) arrive(from string, record []byte) {
	if e.n.apart(from, e.node) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || e.eof {
		return
	}
	e.in = append(e.in, record...)
	e.cond.Broadcast()
}

// Read waits for a record. There is no deadline: records come whole.
func (e *end) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.in) == 0 && !e.gone && !e.eof {
		e.cond.Wait()
	}
	switch {
	case e.gone:
		return 0, net.ErrClosed
	case len(e.in) == 0:
		return 0, io.EOF
	}
	n := copy(p, e.in)
	e.in = e.in[n:]
	return n, nil
}

// Close ends the connection. The peer hears of it a little later, so that what
// was sent just before may arrive.
func (e *end) Close() error {
	e.mu.Lock()
	again := e.gone
	e.gone = true
	e.cond.Broadcast()
	e.mu.Unlock()
	if again {
		return nil
	}
	e.n.mu.Lock()
	delete(e.n.ends, e)
	e.n.mu.Unlock()
	p := e.peer
	time.AfterFunc(3*time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.eof = true
		p.cond.Broadcast()
	})
	return nil
}

func (e *end) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(e.addr) }
func (e *end) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.peer.addr) }

func (e *end) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (e *end) SetReadDeadline(time.Time) error  { return nil }
func (e *end) SetWriteDeadline(time.Time) error { return nil }
