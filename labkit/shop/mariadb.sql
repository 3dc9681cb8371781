CREATE TABLE categories (category int PRIMARY KEY, categoryname varchar(50) NOT NULL);
CREATE TABLE products (
    prod_id int PRIMARY KEY, category int NOT NULL, title varchar(50) NOT NULL,
    actor varchar(50) NOT NULL, price int NOT NULL, special int NOT NULL,
    common_prod_id int NOT NULL);
CREATE TABLE inventory (prod_id int PRIMARY KEY, stock int NOT NULL, sold bigint NOT NULL);
CREATE TABLE customers (
    customerid int PRIMARY KEY AUTO_INCREMENT,
    username varchar(50) NOT NULL, password varchar(50) NOT NULL,
    firstname varchar(50) NOT NULL, lastname varchar(50) NOT NULL, address varchar(80) NOT NULL,
    city varchar(50) NOT NULL, country varchar(50) NOT NULL, email varchar(80) NOT NULL,
    phone varchar(20) NOT NULL, creditcard varchar(20) NOT NULL, age int NOT NULL,
    income int NOT NULL);
CREATE TABLE orders (
    orderid bigint PRIMARY KEY AUTO_INCREMENT,
    orderdate bigint NOT NULL, customerid int NOT NULL,
    net bigint NOT NULL, tax bigint NOT NULL, total bigint NOT NULL, ref bigint NOT NULL);
CREATE TABLE orderlines (
    orderid bigint NOT NULL, line smallint NOT NULL, prod_id int NOT NULL,
    quantity smallint NOT NULL, orderdate bigint NOT NULL, PRIMARY KEY (orderid, line));
CREATE TABLE cust_hist (
    customerid int NOT NULL, orderid bigint NOT NULL, prod_id int NOT NULL,
    KEY (customerid, orderid));
CREATE TABLE reorder (prod_id int NOT NULL, low int NOT NULL, added int NOT NULL);
CREATE TABLE loaded (what varchar(50) PRIMARY KEY, many bigint NOT NULL, total bigint NOT NULL);
-- loaded
CREATE UNIQUE INDEX username ON customers (username);
CREATE INDEX special ON products (category, special);
CREATE FULLTEXT INDEX actor ON products (actor);
CREATE FULLTEXT INDEX title ON products (title);
-- programs
CREATE TRIGGER restock BEFORE UPDATE ON inventory FOR EACH ROW
BEGIN
    DECLARE more int DEFAULT floor(rand() * 500);
    IF NEW.stock < 3 THEN
        INSERT INTO reorder VALUES (NEW.prod_id, NEW.stock, more);
        SET NEW.stock = NEW.stock + more;
    END IF;
END;
CREATE PROCEDURE purchase(who int, net bigint, tax bigint, total bigint, mark bigint,
    ids json, wanted json)
BEGIN
    DECLARE number bigint;
    DECLARE at, product, many int DEFAULT 0;
    DECLARE today bigint DEFAULT unix_timestamp();
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    INSERT INTO orders (orderdate, customerid, net, tax, total, ref)
        VALUES (today, who, net, tax, total, mark);
    SET number = last_insert_id();
    WHILE at < json_length(ids) DO
        SET product = json_value(ids, concat('$[', at, ']'));
        SET many = json_value(wanted, concat('$[', at, ']'));
        UPDATE inventory SET stock = stock - many, sold = sold + many
            WHERE prod_id = product AND stock >= many;
        IF row_count() = 0 THEN
            SIGNAL SQLSTATE 'DS001' SET MESSAGE_TEXT = 'short of stock';
        END IF;
        SET at = at + 1;
        INSERT INTO orderlines VALUES (number, at, product, many, today);
        INSERT INTO cust_hist VALUES (who, number, product);
    END WHILE;
    COMMIT;
    SELECT number;
END;
