package etcd

import (
	"context"
	"encoding/json"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// presenceTime is how long a Member is listed after its last word.
const presenceTime = 10 * time.Second

// announce keeps this Member on the list until ctx ends. It is for people:
// nothing depends on it.
func (m *Member) announce(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.announceOnce(ctx); err != nil {
			m.status.trouble(m.log, err)
		}
		pause(ctx, 10*retryTime)
	}
}

// announceOnce returns when the key is lost.
func (m *Member) announceOnce(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	grant, err := m.etcd.Grant(try, int64(presenceTime/time.Second))
	if err != nil {
		return err
	}
	val, err := json.Marshal(Holder{ID: m.cfg.ID, Address: m.cfg.Address, Version: m.cfg.Version, Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	if _, err := m.etcd.Put(try, m.key(keyMember)+m.cfg.ID, string(val), clientv3.WithLease(grant.ID)); err != nil {
		return err
	}
	kept, err := m.etcd.KeepAlive(ctx, grant.ID)
	if err != nil {
		return err
	}
	for range kept { // until the lease is lost, or ctx ends
	}
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTime)
		defer cancel()
		_, err = m.etcd.Revoke(last, grant.ID)
		return err
	}
	return nil
}

// Members lists who is there, by ID, as etcd says now.
func (m *Member) Members(ctx context.Context) ([]Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	resp, err := m.etcd.Get(ctx, m.key(keyMember), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	var list []Holder
	for _, kv := range resp.Kvs {
		var h Holder
		if json.Unmarshal(kv.Value, &h) == nil {
			list = append(list, h)
		}
	}
	return list, nil
}

// Holder asks etcd who leads. A zero Holder: nobody.
func (m *Member) Holder(ctx context.Context) (h Holder, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	resp, err := m.etcd.Get(ctx, m.key(keyLead))
	if err != nil || len(resp.Kvs) == 0 {
		return Holder{}, err
	}
	return h, json.Unmarshal(resp.Kvs[0].Value, &h)
}
