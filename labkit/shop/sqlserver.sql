CREATE TABLE categories (
    category int NOT NULL PRIMARY KEY, categoryname varchar(50) NOT NULL);
CREATE TABLE products (
    prod_id int NOT NULL CONSTRAINT product PRIMARY KEY, category int NOT NULL,
    title varchar(50) NOT NULL, actor varchar(50) NOT NULL, price int NOT NULL,
    special int NOT NULL, common_prod_id int NOT NULL);
CREATE TABLE inventory (prod_id int NOT NULL PRIMARY KEY, stock int NOT NULL, sold bigint NOT NULL);
CREATE TABLE customers (
    customerid int NOT NULL PRIMARY KEY,
    username varchar(50) NOT NULL, password varchar(50) NOT NULL,
    firstname varchar(50) NOT NULL, lastname varchar(50) NOT NULL, address varchar(80) NOT NULL,
    city varchar(50) NOT NULL, country varchar(50) NOT NULL, email varchar(80) NOT NULL,
    phone varchar(20) NOT NULL, creditcard varchar(20) NOT NULL, age int NOT NULL,
    income int NOT NULL);
CREATE TABLE orders (
    orderid bigint NOT NULL PRIMARY KEY,
    orderdate bigint NOT NULL, customerid int NOT NULL,
    net bigint NOT NULL, tax bigint NOT NULL, total bigint NOT NULL, ref bigint NOT NULL);
CREATE TABLE orderlines (
    orderid bigint NOT NULL, line smallint NOT NULL, prod_id int NOT NULL,
    quantity smallint NOT NULL, orderdate bigint NOT NULL);
CREATE TABLE cust_hist (customerid int NOT NULL, orderid bigint NOT NULL, prod_id int NOT NULL);
CREATE TABLE reorder (prod_id int NOT NULL, low int NOT NULL, added int NOT NULL);
CREATE TABLE loaded (
    what varchar(50) NOT NULL PRIMARY KEY, many bigint NOT NULL, total bigint NOT NULL);
-- loaded
CREATE UNIQUE INDEX username ON customers (username);
CREATE INDEX special ON products (category, special);
CREATE UNIQUE CLUSTERED INDEX line ON orderlines (orderid, line);
CREATE CLUSTERED INDEX remembered ON cust_hist (customerid, orderid);
DECLARE @made varchar(200);
SET @made = CONCAT('CREATE SEQUENCE customer_numbers AS int START WITH ',
    (SELECT COALESCE(MAX(customerid), 0) + 1 FROM customers), ' CACHE 1000');
EXECUTE (@made);
SET @made = CONCAT('CREATE SEQUENCE order_numbers AS bigint START WITH ',
    (SELECT COALESCE(MAX(orderid), 0) + 1 FROM orders), ' CACHE 1000');
EXECUTE (@made);
GO
CREATE TRIGGER restock ON inventory AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @more int;
    IF EXISTS (SELECT 1 FROM inserted WHERE stock < 3)
    BEGIN
        SET @more = FLOOR(RAND() * 500);
        INSERT INTO reorder SELECT prod_id, stock, @more FROM inserted WHERE stock < 3;
        UPDATE inventory SET stock = stock + @more
            WHERE prod_id IN (SELECT prod_id FROM inserted WHERE stock < 3);
    END;
END;
GO
CREATE PROCEDURE purchase
    @who int, @net bigint, @tax bigint, @total bigint, @mark bigint,
    @ids varchar(400), @wanted varchar(400)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @number bigint;
    DECLARE @at int = 0;
    DECLARE @lines int = (SELECT COUNT(*) FROM OPENJSON(@ids));
    DECLARE @product int;
    DECLARE @many int;
    DECLARE @today bigint = DATEDIFF_BIG(second, '1970-01-01', SYSUTCDATETIME());
    SET @number = NEXT VALUE FOR order_numbers;
    BEGIN TRANSACTION;
    INSERT INTO orders (orderid, orderdate, customerid, net, tax, total, ref)
        VALUES (@number, @today, @who, @net, @tax, @total, @mark);
    WHILE @at < @lines
    BEGIN
        SET @product = CAST(JSON_VALUE(@ids, CONCAT('$[', @at, ']')) AS int);
        SET @many = CAST(JSON_VALUE(@wanted, CONCAT('$[', @at, ']')) AS int);
        UPDATE inventory SET stock = stock - @many, sold = sold + @many
            WHERE prod_id = @product AND stock >= @many;
        IF @@ROWCOUNT = 0
        BEGIN
            ROLLBACK TRANSACTION;
            THROW 50001, 'short of stock', 1;
        END;
        SET @at = @at + 1;
        INSERT INTO orderlines VALUES (@number, @at, @product, @many, @today);
        INSERT INTO cust_hist VALUES (@who, @number, @product);
    END;
    COMMIT TRANSACTION;
    SELECT @number;
END;
GO
-- Without full-text search, which is installed apart, names are looked for in all products.
CREATE PROCEDURE search_actor @words varchar(80), @most int AS
BEGIN
    SET NOCOUNT ON;
    SELECT TOP (@most) prod_id, title, actor, price FROM products AS p
        WHERE NOT EXISTS (SELECT 1 FROM STRING_SPLIT(@words, ' ') AS w
            WHERE CONCAT(' ', p.actor, ' ') NOT LIKE CONCAT('% ', w.value, ' %'));
END;
GO
CREATE PROCEDURE search_title @words varchar(80), @most int AS
BEGIN
    SET NOCOUNT ON;
    SELECT TOP (@most) prod_id, title, actor, price FROM products AS p
        WHERE NOT EXISTS (SELECT 1 FROM STRING_SPLIT(@words, ' ') AS w
            WHERE CONCAT(' ', p.title, ' ') NOT LIKE CONCAT('% ', w.value, ' %'));
END;
GO
IF SERVERPROPERTY('IsFullTextInstalled') = 1
BEGIN
    DECLARE @left int = 600;
    EXECUTE ('CREATE FULLTEXT CATALOG shop AS DEFAULT');
    EXECUTE ('CREATE FULLTEXT INDEX ON products (actor LANGUAGE 0, title LANGUAGE 0)
        KEY INDEX product WITH (STOPLIST = OFF)');
    EXECUTE ('ALTER PROCEDURE search_actor @words varchar(80), @most int AS
    BEGIN
        SET NOCOUNT ON;
        DECLARE @all nvarchar(400) = CONCAT(''"'', REPLACE(@words, '' '', ''" AND "''), ''"'');
        SELECT TOP (@most) prod_id, title, actor, price FROM products WHERE CONTAINS(actor, @all);
    END');
    EXECUTE ('ALTER PROCEDURE search_title @words varchar(80), @most int AS
    BEGIN
        SET NOCOUNT ON;
        DECLARE @all nvarchar(400) = CONCAT(''"'', REPLACE(@words, '' '', ''" AND "''), ''"'');
        SELECT TOP (@most) prod_id, title, actor, price FROM products WHERE CONTAINS(title, @all);
    END');
    WHILE @left > 0 AND FULLTEXTCATALOGPROPERTY('shop', 'PopulateStatus') <> 0
    BEGIN
        WAITFOR DELAY '00:00:00.200';
        SET @left = @left - 1;
    END;
    IF @left = 0 THROW 50002, 'full-text search was not ready within two minutes', 1;
END;
