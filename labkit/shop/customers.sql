-- login
SELECT c.customerid, p.title, l.title FROM customers c
    LEFT JOIN LATERAL (SELECT orderid, prod_id FROM cust_hist
    WHERE customerid = c.customerid ORDER BY orderid DESC LIMIT 10) h ON true
    LEFT JOIN products p ON p.prod_id = h.prod_id
    LEFT JOIN products l ON l.prod_id = p.common_prod_id
    WHERE c.username = $1 AND c.password = $2
-- new
INSERT INTO customers (username, password, firstname, lastname, address, city,
    country, email, phone, creditcard, age, income)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (username) DO NOTHING RETURNING customerid
-- category
SELECT prod_id, title, actor, price FROM products
    WHERE category = $1::int AND special = 1 LIMIT $2::int
-- actor
SELECT prod_id, title, actor, price FROM products
    WHERE to_tsvector('simple', actor) @@ plainto_tsquery('simple', $1) LIMIT $2::int
-- title
SELECT prod_id, title, actor, price FROM products
    WHERE to_tsvector('simple', title) @@ plainto_tsquery('simple', $1) LIMIT $2::int
-- prices
SELECT prod_id, price FROM products WHERE prod_id = ANY ($1::int[])
-- purchase
SELECT purchase($1::int, $2::bigint, $3::bigint, $4::bigint, $5::bigint,
    $6::int[], $7::int[])
